-- Purpose: notes one applied migration.
-- Parameters: $1 the outbox table, $2 the version, $3 the file's name.
-- Guard: runs in the migration's own transaction, so that neither is there without the other.

insert into outboxd.migrations (schema_name, outbox_table, version, file)
values (current_schema(), $1, $2, $3)
    on conflict (schema_name, outbox_table, version) do nothing
returning version;
