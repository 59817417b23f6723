-- Purpose: notes that a forwarded notification was refused for good.
-- Parameters: $1 its claim, $2 the error code.
-- Guard: raises where the claim is lost or over.

select outboxd.fail_notification($1::text::jsonb, $2) is not null as done;
