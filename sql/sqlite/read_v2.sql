-- Purpose: the next notifications of a ledger of version 2, with their state. (SQLite)
-- Parameters: ?1 the row id behind which to begin, ?2 most rows.
-- Guard: it only reads. A notification without state is read as one, and is damaged.

select i.rowid,
       i.notification_id,
       i.event_id,
       i.site_id,
       i.terminal_status,
       i.payload_sha256,
       i.payload_json,
       i.received_at,
       p.status,
       p.attempts,
       p.max_attempts,
       p.next_attempt_at,
       p.lease_owner,
       p.lease_token,
       p.lease_expires_at,
       p.last_error_code,
       p.processed_at,
       p.created_at,
       p.updated_at
  from cms_terminal_notification_inbox as i
  left join cms_terminal_notification_processing as p on p.notification_id = i.notification_id
 where i.rowid > ?1
 order by i.rowid
 limit ?2;
