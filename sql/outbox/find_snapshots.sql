-- Purpose: who keeps dead row versions of this database from being removed, the one that holds most back first.
-- Parameters: none.
-- Guard: reads views only, and never what a session asks. Since when a session's transaction is open is told to members of
-- pg_read_all_stats alone; who holds what, to everybody. Vacuums hold nothing back, and a slot's catalog_xmin keeps rows of
-- catalogs alone. One row is answered where nobody holds anything, for sees_all.

with holders as (
    select case when a.backend_type = 'walsender' then 'standby' else 'session' end as kind,
           a.pid,
           a.application_name as name,
           a.usename::text as user_name,
           a.state,
           a.xact_start as since,
           greatest(age(a.backend_xmin), age(a.backend_xid)) as transactions,
           coalesce(a.backend_xmin, a.backend_xid)::text as held
      from pg_stat_activity as a
     where a.pid <> pg_backend_pid()
       and coalesce(a.backend_xmin, a.backend_xid) is not null
       and (a.datname = current_database() or a.datname is null)
       and not exists (select from pg_stat_progress_vacuum as v where v.pid = a.pid)
    union all
    select 'prepared', null, p.gid, p.owner::text, null, p.prepared, age(p.transaction), p.transaction::text
      from pg_prepared_xacts as p
     where p.database = current_database()
    union all
    select 'slot', s.active_pid, s.slot_name::text, null, null, null, age(s.xmin), s.xmin::text
      from pg_replication_slots as s
     where s.xmin is not null
)
select pg_has_role('pg_read_all_stats', 'usage') as sees_all,
       h.kind,
       h.pid,
       h.name,
       h.user_name,
       h.state,
       h.held,
       extract(epoch from clock_timestamp() - h.since)::double precision as seconds
  from (values (true)) as always(here)
  left join holders as h on always.here
 order by h.transactions desc nulls last, h.since nulls last
 limit 20;
