-- Purpose: what the demo's steady buyers received, and when, by the database's clock.
-- Parameters: $1 the id after which to begin.
-- Guard: it only reads.

select id,
       idempotency_key,
       body,
       received_at
  from adcp_webhook_inbox
 where id > $1
 order by id;
