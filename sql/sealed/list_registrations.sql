-- Purpose: which tasks have a sealed registration, looking at a bounded number of tasks at a time.
-- Parameters: $1 the task to go on after, empty at the beginning; $2 most tasks to look at.
-- Guard: reads only. The next question goes on after the last task that was looked at, which need not have a registration.

with looked as (
    select t.task_id,
           t.webhook_registration is not null as sealed
      from decisioning_tasks as t
     where t.task_id > $1::text
     order by t.task_id
     limit $2::bigint
)
select coalesce(array_agg(l.task_id order by l.task_id) filter (where l.sealed), '{}') as keys,
       case when count(*) = $2::bigint then max(l.task_id) end as after
  from looked as l;
