-- Purpose: which destinations have rows due, and the first of each.
-- Parameters: $1 the destination to begin with (in the order of their names, "" comes first), $2 how many at most.
-- Guard: reads only, one descent into the index for each destination and one more for its first due row, however many rows
-- it has. The state is asked for as the index by destination spells it, so that no other serves. A destination all of whose open rows wait for later is listed without one.

with recursive listed as (
    select 1::bigint as place,
           (select left(rtrim(replace(lower(split_part(split_part(split_part(
                       coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
              from :"outbox" as o
             where o.state || '' in ('pending', 'in_flight')
               and left(rtrim(replace(lower(split_part(split_part(split_part(
                       coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
                   >= $1::text
             order by 1
             limit 1) as destination
     union all
    select listed.place + 1,
           (select left(rtrim(replace(lower(split_part(split_part(split_part(
                       coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
              from :"outbox" as o
             where o.state || '' in ('pending', 'in_flight')
               and left(rtrim(replace(lower(split_part(split_part(split_part(
                       coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
                   > listed.destination
             order by 1
             limit 1)
      from listed
     where listed.destination is not null
       and listed.place < $2::bigint
)
select listed.destination,
       due.available_at,
       due.id,
       statement_timestamp() as looked_at
  from listed
  left join lateral (
       select o.available_at, o.id::bigint as id
         from :"outbox" as o
        where o.state || '' in ('pending', 'in_flight')
          and left(rtrim(replace(lower(split_part(split_part(split_part(
                  coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
              = listed.destination
          and o.available_at <= statement_timestamp()
          and (o.state = 'pending' or o.lease_expires_at is null or o.lease_expires_at <= statement_timestamp()
               or o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00')
          and (o.retry_until is null or o.retry_until > statement_timestamp())
        order by o.available_at, o.id
        limit 1
       ) as due on true
 where listed.destination is not null
 order by listed.place;
