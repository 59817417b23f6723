-- Purpose: a word from another session to a listening one, as a host's wake-up is: what it hears of this, it hears of hosts.
-- Parameters: $1 the listening session's process, $2 the word.
-- Guard: behind a pooler without sessions the statement to listen succeeds, and nothing ever comes. Nothing else tells.

select pg_notify('outboxd_ear_' || $1::integer, $2::text);
