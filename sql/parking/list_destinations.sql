-- Purpose: what an operator wants to see: the destinations that are parked, and those that due rows wait for.
-- Parameters: $1 how many destinations are looked at at most, in the order of their names, and how many parked ones;
-- $2 how many due rows are counted at most, over all: each destination has an even part of it, and at least ten;
-- $3 how many destinations are shown at most.
-- Guard: reads only, by the index by destination, whose condition it spells: one descent for each destination, and one for its
-- rows up to the bound, however many there are. Whoever is parked is shown in any case, the longest pause first, and then who
-- has most rows due.

with recursive listed as (
    select 1::bigint as place,
           (select left(rtrim(replace(lower(split_part(split_part(split_part(
                       coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
              from :"outbox" as o
             where o.state || '' in ('pending', 'in_flight')
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
       and listed.place < $1::bigint
),
parked as materialized (
    select p.*
      from :"outbox_parked" as p
     order by p.parked_until desc
     limit $1::bigint
),
named as materialized (
    select destination from listed where destination is not null
     union
    select destination from parked
),
bound as materialized (
    select greatest($2::bigint / greatest(count(*), 1), 10) as rows from named
),
counted as (
    select named.destination, due.rows, due.oldest, due.rows >= bound.rows as is_more
      from named
     cross join bound
     cross join lateral (
           select count(*) as rows, min(first.available_at) as oldest
             from (select o.available_at
                     from :"outbox" as o
                    where o.state || '' in ('pending', 'in_flight')
                      and left(rtrim(replace(lower(split_part(split_part(split_part(
                              coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
                          = named.destination
                      and o.available_at <= statement_timestamp()
                      and (o.state = 'pending' or o.lease_expires_at is null
                           or o.lease_expires_at <= statement_timestamp()
                           or o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00')
                      and (o.retry_until is null or o.retry_until > statement_timestamp())
                    order by o.available_at, o.id
                    limit bound.rows) as first
           ) as due
)
select c.destination,
       c.rows as due,
       c.is_more,
       (select count(*) from listed where destination is not null) >= $1::bigint as are_more,
       extract(epoch from statement_timestamp() - c.oldest)::double precision as seconds_due,
       extract(epoch from p.parked_until - clock_timestamp())::double precision as seconds_left,
       extract(epoch from clock_timestamp() - p.since)::double precision as seconds_parked,
       p.reason,
       p.trips,
       p.replica,
       case when p.probe_until > clock_timestamp() then p.prober end as prober
  from counted as c
  left join parked as p on p.destination = c.destination
 where c.rows > 0
    or p.destination is not null
 order by p.destination is null, c.rows desc, c.oldest, c.destination
 limit $3::bigint;
