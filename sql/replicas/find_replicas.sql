-- Purpose: whether this outbox has a list of its replicas, and whether the current user may write it.
-- Parameters: $1 the outbox table.
-- Guard: reads the catalog only, so that it answers on a schema of before the list and without any right on it.

select to_regclass(quote_ident($1::text || '_replicas')) is not null as present,
       -- A list of privileges asks whether there is any of them.
       coalesce(has_table_privilege(to_regclass(quote_ident($1::text || '_replicas')), 'INSERT')
                and has_table_privilege(to_regclass(quote_ident($1::text || '_replicas')), 'UPDATE')
                and has_table_privilege(to_regclass(quote_ident($1::text || '_replicas')), 'DELETE'), false) as writable;
