-- Purpose: one notification by its event, with how far its processing is. No row: there is none.
-- Parameters: $1 event id.
-- Guard: it only reads. Whoever asks must look at damage first; the columns of a damaged row may be null.

select notification_id,
       event_id,
       site_id,
       terminal_status,
       payload_sha256,
       payload_json,
       received_at,
       status,
       attempts,
       max_attempts,
       next_attempt_at,
       lease_expires_at,
       coalesce(status = 'leased' and lease_expires_at <= outboxd.inbox_clock(), false) as lease_expired,
       last_error_code,
       processed_at,
       damage
  from cms_terminal_notifications
 where event_id = $1::text;
