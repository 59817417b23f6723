-- Purpose: the version row of a ledger, of which there must be one. (SQLite)
-- Parameters: none.
-- Guard: it only reads.

select singleton,
       schema_version
  from cms_terminal_notification_inbox_meta;
