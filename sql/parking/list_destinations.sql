-- Purpose: what an operator wants to see: the destinations that are parked, and those that due rows wait for.
-- Parameters: $1 how many due rows are counted at most, $2 how many destinations are listed at most.
-- Guard: reads only, in the order of the index that claims use and no further than the bound.

with due as (
    select left(rtrim(replace(lower(split_part(split_part(split_part(
               coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
               as destination,
           o.available_at
      from :"outbox" as o
     where o.state in ('pending', 'in_flight')
       and o.available_at <= statement_timestamp()
       and (o.state = 'pending' or o.lease_expires_at is null or o.lease_expires_at <= statement_timestamp()
            or o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00')
       and (o.retry_until is null or o.retry_until > statement_timestamp())
     order by o.available_at, o.id
     limit $1::bigint
),
counted as (
    select destination, count(*) as due, min(available_at) as oldest
      from due
     group by destination
)
select coalesce(p.destination, c.destination) as destination,
       coalesce(c.due, 0)::bigint as due,
       extract(epoch from statement_timestamp() - c.oldest)::double precision as seconds_due,
       extract(epoch from p.parked_until - clock_timestamp())::double precision as seconds_left,
       extract(epoch from clock_timestamp() - p.since)::double precision as seconds_parked,
       p.reason,
       p.trips,
       p.replica,
       case when p.probe_until > clock_timestamp() then p.prober end as prober
  from counted as c
  full join :"outbox_parked" as p on p.destination = c.destination
 order by p.destination is null, coalesce(c.due, 0) desc, 1
 limit $2::bigint;
