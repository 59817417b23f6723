-- Purpose: what is parked, and for how much longer this replica has to leave each destination alone.
-- Parameters: $1 most destinations, $2 the replica.
-- Guard: reads only. By the database's clock, which also wrote the times. Another replica's probe is waited for as for a
-- pause; one's own is not.

select p.destination,
       extract(epoch from greatest(p.parked_until, case when p.prober <> $2::text then p.probe_until end)
                          - clock_timestamp())::double precision as seconds_left,
       p.reason,
       p.trips
  from :"outbox_parked" as p
 order by p.parked_until desc
 limit $1::bigint;
