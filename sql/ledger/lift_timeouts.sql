-- Purpose: takes the session's time limits off a migration's transaction: another migration may be under way,
-- and an index takes as long as it takes.
-- Parameters: none.
-- Guard: for this transaction only. A statement of its own, since a limit binds the statement that lifts it.

select set_config('statement_timeout', '0', true),
       set_config('lock_timeout', '0', true);
