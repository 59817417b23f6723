-- Purpose: whether this database has what operators' commands run, for this outbox and this user.
-- Parameters: $1 the outbox table.
-- Guard: reads the catalog only, so that it answers without any right. The functions are one set for the whole database and
-- go by the table's name; in which schema it is, the search_path says.

select to_regclass(quote_ident($1::text || '_audit')) is not null
           and exists (select
                         from pg_proc as p
                         join pg_namespace as n on n.oid = p.pronamespace
                        where n.nspname = 'outboxd'
                          and p.proname = '_outbox'
                          and p.prosrc like '%"' || replace($1::text, '_', '\_') || '"%') as present,
       coalesce((select bool_and(has_function_privilege(p.oid, 'EXECUTE'))
                   from pg_proc as p
                   join pg_namespace as n on n.oid = p.pronamespace
                  where n.nspname = 'outboxd'
                    and has_schema_privilege(n.oid, 'USAGE')
                    and p.proname in ('_find_deliveries', '_change_deliveries', '_renew_deliveries')), false)
           and coalesce(has_table_privilege(to_regclass(quote_ident($1::text || '_audit')), 'INSERT'), false) as permitted,
       current_user::text as username;
