-- Purpose: leases the oldest due notification for forwarding. No row: none is due.
-- Parameters: $1 the worker's name, $2 the lease in seconds.
-- Guard: the function's. The claim is handed back as it came, since it is its own fence.

select c.claim::text as claim,
       c.claim ->> 'site_id' as site_id,
       c.claim ->> 'notification_id' as notification_id,
       (c.claim ->> 'attempt')::integer as attempt,
       c.claim ->> 'payload' as payload
  from (select outboxd.claim_notification($1, $2) as claim offset 0) as c
 where c.claim is not null;
