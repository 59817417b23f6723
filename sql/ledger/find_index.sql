-- Purpose: whether an index can be built concurrently, and what there is of it.
-- Parameters: $1 the table, $2 the index.
-- Guard: reads the catalog only. A concurrent build holds a share update exclusive lock on the table from its beginning to its
-- end, so that an invalid index is no leftover while somebody else has that lock; VACUUM takes it too, and ends.

select coalesce((select relkind = 'r' from pg_class where oid = to_regclass(quote_ident($1::text))), false) as standing,
       coalesce((select indisvalid
                   from pg_index
                   join pg_class on pg_class.oid = indexrelid
                  where indrelid = to_regclass(quote_ident($1::text))
                    and relname = $2::text), false) as valid,
       exists (select from pg_index
                 join pg_class on pg_class.oid = indexrelid
                where indrelid = to_regclass(quote_ident($1::text))
                  and relname = $2::text
                  and not indisvalid) as broken,
       exists (select from pg_locks
                where locktype = 'relation'
                  and database = (select oid from pg_database where datname = current_database())
                  and relation = to_regclass(quote_ident($1::text))
                  and mode = 'ShareUpdateExclusiveLock'
                  and pid <> pg_backend_pid()) as busy;
