-- Purpose: the next notifications of a ledger of version 1. (SQLite)
-- Parameters: ?1 the row id behind which to begin, ?2 most rows.
-- Guard: it only reads, in the order of row ids, which both exist for every row and cannot be null.

select rowid,
       notification_id,
       event_id,
       site_id,
       terminal_status,
       payload_sha256,
       payload_json,
       received_at
  from cms_terminal_notification_inbox
 where rowid > ?1
 order by rowid
 limit ?2;
