-- Purpose: who holds a lock that work on the outbox waits for, or would: who waits for nobody first, then who keeps most waiting.
-- Parameters: $1 the outbox table.
-- Guard: reads views only, which no lock on a table keeps from being read, and never what a session asks. Since when a
-- session's transaction is open is told to members of pg_read_all_stats alone; who blocks whom, to everybody. A holder without a
-- pid is a prepared transaction.

with locks as materialized (
    select l.pid, l.mode, l.granted
      from pg_locks as l
     where l.locktype = 'relation'
       and l.relation = to_regclass(quote_ident($1::text))
       and l.database = (select d.oid from pg_database as d where d.datname = current_database())
       and l.pid is distinct from pg_backend_pid()
),
waiting as materialized (
    select distinct l.pid
      from locks as l
     where exists (select from pg_locks as w where w.pid = l.pid and not w.granted)
),
blocking as (
    select b.pid, w.pid as waiter
      from waiting as w
     cross join unnest(pg_blocking_pids(w.pid)) as b (pid)
    union
    -- Nothing can be claimed beside one of these, whether or not somebody tries to just now.
    select coalesce(l.pid, 0), null
      from locks as l
     where l.granted
       and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
)
select nullif(b.pid, 0) as pid,
       a.application_name as name,
       a.usename::text as user_name,
       a.state,
       extract(epoch from clock_timestamp() - a.xact_start)::double precision as seconds,
       count(distinct b.waiter) as waiting
  from blocking as b
  left join pg_stat_activity as a on a.pid = b.pid
 group by b.pid, a.application_name, a.usename, a.state, a.xact_start
 order by b.pid in (select w.pid from waiting as w), count(distinct b.waiter) desc, a.xact_start
 limit 5;
