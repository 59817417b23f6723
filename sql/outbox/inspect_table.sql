-- Purpose: what the outbox table is made of, and what the current user may do with it.
-- Parameters: $1 the outbox table.
-- Guard: reads the catalog only, so that it answers without any right on the table. No row: there is none.

select c.relkind::text as kind,
       c.relpersistence::text as persistence,
       row_security_active(c.oid) as row_security,
       c.relispartition or exists (select from pg_inherits where inhparent = c.oid or inhrelid = c.oid) as inherits,
       exists (select from pg_trigger where tgrelid = c.oid and not tgisinternal) as has_triggers,
       exists (select from pg_rewrite where ev_class = c.oid) as has_rules,
       exists (select from unnest(c.reloptions) as parameter where parameter like 'fillfactor=%') as has_fillfactor,
       has_table_privilege(c.oid, 'DELETE') as may_delete,
       -- An outbox without the side table has no composed rows to read.
       coalesce(has_table_privilege(to_regclass(quote_ident($1::text || '_composed')), 'SELECT'), true) as may_read_composed,
       coalesce(has_table_privilege(to_regclass(quote_ident($1::text || '_replicas')), 'INSERT'), true) as may_write_replicas,
       to_regclass(quote_ident($1::text || '_parked')) is not null as has_parking,
       to_regclass(quote_ident($1::text || '_audit')) is not null
           and to_regclass(quote_ident($1::text || '_caps')) is not null as has_audit,
       coalesce(has_table_privilege(to_regclass(quote_ident($1::text || '_parked')), 'INSERT'), true) as may_write_parking,
       to_regclass(quote_ident($1::text || '_attempts')) is not null as has_attempts,
       coalesce(has_table_privilege(to_regclass(quote_ident($1::text || '_attempts')), 'INSERT'), true) as may_write_attempts,
       coalesce(has_table_privilege(to_regclass(quote_ident($1::text || '_traces')), 'SELECT'), false) as has_traces,
       n.nspname::text as schema_name,
       has_schema_privilege(n.oid, 'USAGE') as may_use_schema,
       (select coalesce(array_agg(a.attname::text order by a.attnum), '{}') from pg_attribute as a
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
       (select coalesce(array_agg(format_type(a.atttypid, null) order by a.attnum), '{}') from pg_attribute as a
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as types,
       (select coalesce(array_agg(a.attnotnull order by a.attnum), '{}') from pg_attribute as a
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as not_null,
       (select coalesce(array_agg(has_column_privilege(c.oid, a.attnum, 'SELECT') order by a.attnum), '{}')
          from pg_attribute as a
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as readable,
       (select coalesce(array_agg(has_column_privilege(c.oid, a.attnum, 'UPDATE') order by a.attnum), '{}')
          from pg_attribute as a
         where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as writable,
       (select coalesce(array_agg(pg_get_constraintdef(k.oid) order by k.oid), '{}') from pg_constraint as k
         where k.conrelid = c.oid and k.contype = 'c') as checks,
       -- From the method on, since the part before it holds names.
       (select coalesce(array_agg(substring(pg_get_indexdef(i.indexrelid) from ' USING (.*)$')
                                  order by i.indexrelid), '{}')
          from pg_index as i
         where i.indrelid = c.oid and i.indisvalid) as indexes,
       -- By its name: how a server spells an index's expression depends on its version.
       exists (select from pg_index as i
                 join pg_class as named on named.oid = i.indexrelid
                where i.indrelid = c.oid and i.indisvalid and named.relname = $1 || '_destination_idx') as by_destination,
       exists (select from pg_index as i
                 join pg_class as named on named.oid = i.indexrelid
                where i.indrelid = c.oid and i.indisvalid and named.relname = $1 || '_account_idx') as by_account
  from pg_class as c
  join pg_namespace as n on n.oid = c.relnamespace
 where c.oid = to_regclass(quote_ident($1::text));
