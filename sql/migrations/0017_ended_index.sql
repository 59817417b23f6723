-- The index by which an operator finds what was not delivered: expired and quarantined rows, among any number of delivered ones.
--
-- Without it `outboxd list --state invalid` and `outboxd status` read the whole table. A row enters it only when it ends so, which
-- is seldom; claims and settles of others pay for no more than looking at the condition.
-- Needs: ownership of the table. It blocks writers while it is built: on a large live table first run the
-- same statement by hand with CREATE INDEX CONCURRENTLY, after which this one changes nothing.

create index if not exists :"outbox_ended_idx" on :"outbox" (id)
    where state in ('expired', 'invalid');
