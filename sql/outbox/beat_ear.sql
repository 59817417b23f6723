-- Purpose: a word from the listening session to itself, which shows that the connection is alive both ways.
-- Parameters: $1 the word.
-- Guard: it comes back even through a pooler that lets no other session's notification through; prove_ear tells those.

select pg_backend_pid() as ear,
       pg_notify('outboxd_ear_' || pg_backend_pid(), $1::text);
