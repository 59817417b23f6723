-- Purpose: which tasks have a sealed registration, looking at a bounded number of tasks at a time.
-- Parameters: $1 the task to go on after, empty at the beginning; $2 most tasks to look at.
-- Guard: reads only. The last task that was looked at is always answered, since the next question goes on after it.

with looked as (
    select t.task_id,
           t.webhook_registration is not null as sealed
      from decisioning_tasks as t
     where t.task_id > $1::text
     order by t.task_id
     limit $2::bigint
),
numbered as (
    select l.*,
           row_number() over (order by l.task_id) as position,
           count(*) over () as looked_at
      from looked as l
)
select n.task_id as key,
       n.sealed,
       n.looked_at < $2::bigint as final
  from numbered as n
 where n.sealed
    or n.position = n.looked_at
 order by n.task_id;
