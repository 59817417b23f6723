-- Purpose: whether this database has a ledger of migrations.
-- Parameters: none.
-- Guard: reads the catalog only, so it needs no right on the ledger and does not fail without one.

select to_regclass('outboxd.migrations') is not null as present;
