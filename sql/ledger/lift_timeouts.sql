-- Purpose: takes the time limits off a migrator's own session: an index takes as long as it takes, and a limit that cuts a
-- concurrent build short leaves an invalid index behind.
-- Parameters: none.
-- Guard: for a session that nobody else uses afterwards; so not through a pooler in transaction mode. Names that this server
-- does not know are passed over.

select count(set_config(name, '0', false)) as lifted
  from pg_settings
 where name in ('statement_timeout', 'lock_timeout', 'transaction_timeout');
