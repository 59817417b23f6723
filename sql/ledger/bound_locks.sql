-- Purpose: bounds how long a migration's transaction makes others wait.
-- Parameters: none.
-- Guard: for this transaction only. Whoever queues for a lock on a table stops every writer that comes after, so each try is
-- short, and a try that fails is made again later; what a migration does once it has its locks takes milliseconds.

select set_config('lock_timeout', '200ms', true);
