-- Purpose: which indexes there are for listing an account's or a destination's rows, and which schema the outbox is in.
-- Parameters: $1 the outbox table.
-- Guard: reads the catalog only. An index that is not valid is being built, or its build was interrupted: it is false then, and
-- null where there is none. By its name: how a server spells an index's expression depends on its version. No row: no outbox.

with indexes as materialized (
    select named.relname, i.indisvalid
      from pg_index as i
      join pg_class as named on named.oid = i.indexrelid
     where i.indrelid = to_regclass(quote_ident($1::text))
)
select quote_ident(n.nspname) as schema_name,
       (select indisvalid from indexes where relname = $1 || '_list_account_idx') as by_account,
       (select indisvalid from indexes where relname = $1 || '_list_dest_idx') as by_destination,
       coalesce((select indisvalid from indexes where relname = $1 || '_destination_idx'), false) as open_by_destination
  from pg_class as c
  join pg_namespace as n on n.oid = c.relnamespace
 where c.oid = to_regclass(quote_ident($1::text));
