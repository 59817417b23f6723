-- Purpose: tries to become the one migrator of this database, to the end of the transaction; asked again by whoever is, it
-- says so.
-- Parameters: none.
-- Guard: the advisory lock belongs to the transaction, so it holds through a pooler in transaction mode and is freed
-- whatever happens. It is not waited for: a statement that waits holds a snapshot, and an index that the other migrator
-- builds concurrently would wait for that in turn. Between statements of the simple protocol this transaction holds neither
-- a snapshot nor a transaction id, and so is in nobody's way however long it stays open, which the second half allows.

select pg_try_advisory_xact_lock(hashtextextended('outboxd.migrations', 0)) as held,
       (select count(set_config(name, '0', true))
          from pg_settings
         where name in ('idle_in_transaction_session_timeout', 'transaction_timeout')) as lifted;
