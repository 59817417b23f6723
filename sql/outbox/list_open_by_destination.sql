-- Purpose: the same as list_open where rows for one destination are asked for and the index by destination is there.
-- Parameters: as list_rows; $3 is not null.
-- Guard: as list_open, but of open rows those for the destination alone are read, by that index, whose condition it spells.

with open as materialized (
    select o.id::bigint as id
      from :"outbox" as o
     where o.state || '' in ('pending', 'in_flight')
       and left(rtrim(replace(lower(split_part(split_part(split_part(
               coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260) = $3::text
     order by o.available_at, o.id
     limit $11::bigint
),
ended as materialized (
    select o.id::bigint as id
      from :"outbox" as o
     where o.state in ('expired', 'invalid')
       and ($1::text[] is null or $1::text[] && array['expired', 'invalid'])
     order by o.id desc
     limit $11::bigint
),
floor as materialized (
    select case when (select count(*) from open) >= $11::bigint or (select count(*) from ended) >= $11::bigint
                then 1::bigint end as looked_to
)
select floor.looked_to, found.*
  from floor
  left join lateral (
      select o.id::bigint as id,
             case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end as state,
             o.account_id,
             o.task_id,
             left(rtrim(replace(lower(split_part(split_part(split_part(
                 coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260) as destination,
             o.idempotency_key,
             o.attempt_count,
             extract(epoch from statement_timestamp() - o.created_at)::double precision as age,
             case when o.state in ('pending', 'in_flight')
                  then extract(epoch from o.available_at - statement_timestamp())::double precision end as next_in,
             o.last_http_status,
             o.last_error
        from :"outbox" as o
       where floor.looked_to is null
         and o.id in (select id from open union all select id from ended)
         and o.state <> 'delivered'
         and o.id < $9::bigint
         and ($1::text[] is null
              or case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end = any ($1::text[]))
         and ($2::text is null or o.account_id = $2::text)
         and left(rtrim(replace(lower(split_part(split_part(split_part(
                 coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260) = $3::text
         and ($4::text is null or split_part(o.last_error, ':', 1) = $4::text)
         and ($5::text is null or o.task_id = $5::text)
         and ($6::text is null or o.idempotency_key = $6::text)
         and ($7::double precision is null or o.created_at <= statement_timestamp() - $7::double precision * interval '1 second')
         and ($8::double precision is null or o.created_at > statement_timestamp() - $8::double precision * interval '1 second')
       order by o.id desc
       limit $10::bigint
  ) as found on true;
