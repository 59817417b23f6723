-- Purpose: as list_due, of each account's rows for a destination instead of each destination: its name, a slash, and the account's.
-- Parameters: $1 the pair to begin with (in the order of their names, "" comes first), $2 how many at most.
-- Guard: as list_due, by the index by account.

with recursive listed as (
    select 1::bigint as place,
           (select left(rtrim(replace(lower(split_part(split_part(split_part(
                       coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
                       || '/' || left(coalesce(o.account_id, ''), 200)
              from :"outbox" as o
             where o.state || '' in ('pending', 'in_flight')
               and left(rtrim(replace(lower(split_part(split_part(split_part(
                       coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
                       || '/' || left(coalesce(o.account_id, ''), 200)
                   >= $1::text
             order by 1
             limit 1) as destination
     union all
    select listed.place + 1,
           (select left(rtrim(replace(lower(split_part(split_part(split_part(
                       coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
                       || '/' || left(coalesce(o.account_id, ''), 200)
              from :"outbox" as o
             where o.state || '' in ('pending', 'in_flight')
               and left(rtrim(replace(lower(split_part(split_part(split_part(
                       coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
                       || '/' || left(coalesce(o.account_id, ''), 200)
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
                  || '/' || left(coalesce(o.account_id, ''), 200)
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
