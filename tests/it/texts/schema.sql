-- Everything that the migrations make, a line each, in an order that does not depend on when it was made.
with ours as (
    select n.oid, n.nspname from pg_namespace as n where n.nspname in ('public', 'outboxd')
),
relations as (
    select c.oid, c.relkind, ours.nspname || '.' || c.relname as name, c.reloptions, c.relacl
      from pg_class as c join ours on ours.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'v')
       -- Partitions are made by the day.
       and not c.relispartition
)
select line
  from (
    select format('%s %s', case relkind when 'v' then 'view' else 'table' end, name)
               || coalesce(' with (' || (select string_agg(o, ', ' order by o) from unnest(reloptions) as o) || ')', '') as line
      from relations
     union all
    select format('table %s column %s %s%s%s', r.name, a.attname, format_type(a.atttypid, a.atttypmod),
                  case when a.attnotnull then ' not null' else '' end,
                  coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''))
      from relations as r
      join pg_attribute as a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
     union all
    select format('table %s constraint %s', r.name, pg_get_constraintdef(k.oid))
      from relations as r join pg_constraint as k on k.conrelid = r.oid
     union all
    select format('index %s', pg_get_indexdef(i.indexrelid))
      from relations as r join pg_index as i on i.indrelid = r.oid
     union all
    select format('grant %s on %s to %s', p.privilege_type, r.name, p.grantee::regrole)
      from relations as r, aclexplode(r.relacl) as p
     where p.grantee::regrole::text like 'outboxd\_%'
     union all
    select format('grant %s (%s) on %s to %s', p.privilege_type, a.attname, r.name, p.grantee::regrole)
      from relations as r
      join pg_attribute as a on a.attrelid = r.oid, aclexplode(a.attacl) as p
     where p.grantee::regrole::text like 'outboxd\_%'
     union all
    select format('function %s.%s(%s) returns %s%s md5 %s', ours.nspname, p.proname, pg_get_function_arguments(p.oid),
                  pg_get_function_result(p.oid), case when p.prosecdef then ' security definer' else '' end, md5(p.prosrc))
      from pg_proc as p join ours on ours.oid = p.pronamespace
     union all
    select format('grant execute on %s.%s(%s) to %s', ours.nspname, p.proname, pg_get_function_identity_arguments(p.oid),
                  g.grantee::regrole)
      from pg_proc as p join ours on ours.oid = p.pronamespace, aclexplode(p.proacl) as g
     where g.grantee::regrole::text like 'outboxd\_%'
  ) as lines(line)
 order by line collate "C";
