-- Purpose: notes that a forwarded message was not taken yet.
-- Parameters: $1 its id, $2 its lease token, $3 the error code, $4 and $5 shortest and longest delay in seconds.
-- Guard: raises where the lease is lost or over.

select outboxd.retry_webhook($1, $2, $3, make_interval(secs => $4), make_interval(secs => $5)) as state;
