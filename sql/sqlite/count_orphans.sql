-- Purpose: how many rows of work have no notification. (SQLite)
-- Parameters: none.
-- Guard: it only reads.

select count(*)
  from cms_terminal_notification_processing as p
 where not exists (select 1 from cms_terminal_notification_inbox as i where i.notification_id = p.notification_id);
