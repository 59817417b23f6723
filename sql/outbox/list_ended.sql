-- Purpose: the same as list_rows where only rows are asked for that ended undelivered: these have an index of their own.
-- Parameters: as list_rows.
-- Guard: reads only, along that index, and no further than the bound: its cost follows the bound, not the table. looked_to
-- is how far it came, null where nothing is left below; it is answered without a row too. Nothing sealed is read, and of the
-- URL the destination alone.

with floor as materialized (
    select case when count(*) >= $11::bigint then min(id) end as looked_to
      from (select o.id::bigint as id
              from :"outbox" as o
             where o.state in ('expired', 'invalid') and o.id < $9::bigint
             order by o.id desc
             limit $11::bigint) as looked
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
       where o.state in ('expired', 'invalid')
         and o.id < $9::bigint
         and o.id >= coalesce(floor.looked_to, 0)
         and ($1::text[] is null
              or case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end = any ($1::text[]))
         and ($2::text is null or o.account_id = $2::text)
         and ($3::text is null
              or left(rtrim(replace(lower(split_part(split_part(split_part(
                     coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260) = $3::text)
         and ($4::text is null or split_part(o.last_error, ':', 1) = $4::text)
         and ($5::text is null or o.task_id = $5::text)
         and ($6::text is null or o.idempotency_key = $6::text)
         and ($7::double precision is null or o.created_at <= statement_timestamp() - $7::double precision * interval '1 second')
         and ($8::double precision is null or o.created_at > statement_timestamp() - $8::double precision * interval '1 second')
       order by o.id desc
       limit $10::bigint
  ) as found on true;
