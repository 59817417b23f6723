-- Purpose: lets one migration run at a time, to the end of its transaction, and bounds how long that
-- transaction makes others wait.
-- Parameters: none.
-- Guard: the advisory lock belongs to the transaction, so it holds through a pooler in transaction mode and is
-- freed whatever happens. The table locks after it are awaited for at most 10 s: a migration that queues for a
-- table lock stops every writer behind it.

select pg_advisory_xact_lock(hashtextextended('outboxd.migrations', 0)),
       set_config('lock_timeout', '10s', true);
