-- Purpose: makes the schema `outboxd` and in it the ledger of applied migrations.
-- Parameters: none.
-- Guard: changes nothing where they exist. It needs CREATE on the database even then, so find_ledger is asked
-- first. Runs under lock_ledger.

create schema if not exists outboxd;

create table if not exists outboxd.migrations (
    schema_name  text not null,
    outbox_table text not null,
    version      integer not null,
    file         text not null,
    applied_at   timestamptz not null default clock_timestamp(),
    applied_by   text not null default current_user,
    primary key (schema_name, outbox_table, version)
);
