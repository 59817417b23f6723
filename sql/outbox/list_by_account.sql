-- Purpose: the same as list_rows where rows of one account are asked for and an operator made the index of index_list_accounts.
-- Parameters: as list_rows; $2 is not null.
-- Guard: as list_rows, along that index instead of the primary key. Rows are found between two places of the index, since with an
-- equality the planner may take the primary key as well, which is in the same order then, and read past any number of others. Of
-- accounts whose first 200 characters are the same the whole is compared.

with floor as materialized (
    select case when count(*) >= $11::bigint then min(id) end as looked_to
      from (select o.id::bigint as id
              from :"outbox" as o
             where (left(coalesce(o.account_id, ''), 200) collate "C", o.id) < (left($2::text, 200), $9::bigint)
               and (left(coalesce(o.account_id, ''), 200) collate "C", o.id) >= (left($2::text, 200), 0::bigint)
             order by left(coalesce(o.account_id, ''), 200) collate "C" desc, o.id desc
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
       where (left(coalesce(o.account_id, ''), 200) collate "C", o.id) < (left($2::text, 200), $9::bigint)
         and (left(coalesce(o.account_id, ''), 200) collate "C", o.id) >= (left($2::text, 200), coalesce(floor.looked_to, 0))
         and ($1::text[] is null
              or case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end = any ($1::text[]))
         and o.account_id = $2::text
         and ($3::text is null
              or left(rtrim(replace(lower(split_part(split_part(split_part(
                     coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260) = $3::text)
         and ($4::text is null or split_part(o.last_error, ':', 1) = $4::text)
         and ($5::text is null or o.task_id = $5::text)
         and ($6::text is null or o.idempotency_key = $6::text)
         and ($7::double precision is null or o.created_at <= statement_timestamp() - $7::double precision * interval '1 second')
         and ($8::double precision is null or o.created_at > statement_timestamp() - $8::double precision * interval '1 second')
       order by left(coalesce(o.account_id, ''), 200) collate "C" desc, o.id desc
       limit $10::bigint
  ) as found on true;
