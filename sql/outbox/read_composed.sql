-- Purpose: what composed rows carry beside the outbox: the result and what else their bodies are rendered from.
-- Parameters: $1 task ids, $2 most bytes of results (one is always granted).
-- Guard: it only reads, and what it reads never changes. A task that is not answered has nothing to be rendered from; one
-- that is answered without a result found no room.

with ranked as (
    select c.*,
           row_number() over (order by c.task_id) as position,
           sum(octet_length(c.result)) over (order by c.task_id) as bytes_so_far
      from unnest($1::text[]) as given(task_id)
      join :"outbox_composed" as c on c.task_id = given.task_id
)
select task_id,
       version,
       case when bytes_so_far <= $2::bigint or position = 1 then result end as result,
       (extract(epoch from composed_at) * 1000000)::bigint as composed_at
  from ranked;
