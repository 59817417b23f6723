-- Purpose: notes that a forwarded message was refused for good.
-- Parameters: $1 its id, $2 its lease token, $3 the error code.
-- Guard: raises where the lease is lost or over.

select outboxd.fail_webhook($1, $2, $3) is null as done;
