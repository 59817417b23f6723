-- Purpose: whether one destination is parked, why and for how long.
-- Parameters: $1 its name.
-- Guard: reads only. No row: it is not parked.

select extract(epoch from p.parked_until - clock_timestamp())::double precision as seconds_left,
       extract(epoch from clock_timestamp() - p.since)::double precision as seconds_parked,
       p.reason,
       p.trips,
       p.replica,
       case when p.probe_until > clock_timestamp() then p.prober end as prober
  from :"outbox_parked" as p
 where p.destination = $1::text;
