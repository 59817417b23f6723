-- Purpose: makes the partitions of the days to come, and drops one that is older than attempts are kept.
-- Parameters: $1 how many days ahead, or less than 0 for none; $2 how many seconds attempts are kept.
-- Guard: the function's own: one replica at a time, half a second of waiting for a lock at most, one day dropped by each call.

select made, dropped, busy
  from outboxd.keep_attempts(':"outbox_attempts"'::regclass, $1::integer, $2::double precision);
