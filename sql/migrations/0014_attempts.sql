-- The history: one row for each attempt to deliver, written by the statement that settles it, and kept when the outbox's row is
-- long deleted. What a host shows to buyers of it is made by outboxd.webhook_activity, in the protocol's own words.
--
-- Partitioned by day (UTC), so that a day that is too old is dropped as a whole: deleting ten million rows one by one would
-- take minutes and leave them all to the vacuum. Days are made ahead by outboxd.keep_attempts, which daemons call. An attempt for
-- whose day there is no partition goes into the default one, and is moved when its day is made: no settle fails for want of one.
-- Nothing here comes from a receiver but a status: the URL is without user, query and fragment, with what looks like a secret in
-- its path replaced, and `code` is of the closed list that the README explains.
-- Two indexes are all that an attempt pays for: of a key, for whoever asks what became of one webhook; and of an account by
-- time. That of all by time is of a kind that costs next to nothing, since attempts are written in its order.
-- Workers of the SDK write none, and take no notice of it.
-- Needs: CREATE on the schema.

create table if not exists :"outbox_attempts" (
    fired_at          timestamptz not null,
    -- Until the reply, or until there was to be none.
    took_ms           integer not null,
    -- The outbox's row, which may be gone.
    outbox_id         bigint not null,
    -- From 1. Of a number that is missing the attempt was never settled: whoever made it ended, or lost its lease.
    attempt           integer not null,
    -- Null: nothing was fired, since something on our side was missing or wrong.
    status            text collate "C" check (status in ('success', 'failed', 'timeout', 'connection_error')),
    http_status       integer,
    -- Null where it was taken.
    code              text collate "C",
    payload_bytes     integer,
    sequence_number   bigint,
    account_id        text collate "C" not null,
    task_id           text collate "C" not null,
    task_type         text not null,
    idempotency_key   text collate "C" not null,
    url               text not null,
    -- As the payload has them.
    notification_type text,
    notification_id   text,
    settled_at        timestamptz not null default clock_timestamp()
) partition by range (fired_at);

create table if not exists :"outbox_attempts_default" partition of :"outbox_attempts" default;

create index if not exists :"outbox_attempts_key_idx" on :"outbox_attempts" (idempotency_key);
create index if not exists :"outbox_attempts_acc_idx" on :"outbox_attempts" (account_id, fired_at);
create index if not exists :"outbox_attempts_at_idx" on :"outbox_attempts" using brin (settled_at)
    with (pages_per_range = 32, autosummarize = on);
