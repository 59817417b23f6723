-- Purpose: whether the database answers, by which clock, and whether it takes writes.
-- Parameters: none.
-- Guard: reads no table.

select extract(epoch from clock_timestamp())::double precision as clock,
       pg_is_in_recovery() as in_recovery,
       current_setting('transaction_read_only') = 'on' as read_only;
