-- Purpose: notes that a forwarded message was taken.
-- Parameters: $1 its id, $2 its lease token.
-- Guard: raises where the lease is lost or over.

select outboxd.complete_webhook($1, $2) is null as done;
