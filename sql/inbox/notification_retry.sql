-- Purpose: notes that a forwarded notification was not taken yet.
-- Parameters: $1 its claim, $2 the error code, $3 and $4 shortest and longest delay in seconds.
-- Guard: raises where the claim is lost or over.

select outboxd.retry_notification($1::text::jsonb, $2, $3, $4) is not null as done;
