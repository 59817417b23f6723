-- Purpose: notes that a forwarded notification was taken.
-- Parameters: $1 its claim.
-- Guard: raises where the claim is lost or over. The answer is the one that the function asks for.

select outboxd.complete_notification(c.claim, jsonb_build_object(
           'schema', 'blun.cms-terminal-notification-processing-ack.v1',
           'notification_id', c.claim -> 'notification_id', 'event_id', c.claim -> 'event_id',
           'site_id', c.claim -> 'site_id', 'status', 'processed',
           'notification_sha256', c.claim -> 'payload_sha256')) is not null as done
  from (select $1::text::jsonb as claim) as c;
