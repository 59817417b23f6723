-- Purpose: what is stored under a notification's id, event or payload, compared with the notification.
-- Parameters: as of accept_notification, $1 to $6.
-- Guard: it only reads, in a statement of its own, so that it sees what accept_notification waited for. Nothing found:
-- the other was rolled back, and accepting may be tried again. Each key is looked up by itself:
-- one condition for all three is read off a whole index in sessions without bitmap scans. A damaged row is told as such: it proves neither that the
-- notification was received nor that it collides.

with known as (
    select notification_id from cms_terminal_notification_inbox where notification_id = $1::text
     union
    select notification_id from cms_terminal_notification_inbox where event_id = $2::text
     union
    select notification_id from cms_terminal_notification_inbox where payload_sha256 = $5::text
)
select count(*) as found,
       coalesce(bool_and(notification_id = $1::text
                         and event_id = $2::text
                         and site_id = $3::text
                         and terminal_status = $4::text
                         and payload_sha256 = $5::text
                         and payload_json = $6::text), false) as equal,
       coalesce(bool_or(damage is not null), false) as damaged
  from known
  join cms_terminal_notifications using (notification_id);
