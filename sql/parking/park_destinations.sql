-- Purpose: tells the other replicas that destinations failed or asked to be left alone, and ends the probe of each.
-- Parameters: arrays of the same length: $1 destinations, $2 for how many seconds, $3 reasons, $4 how often in a row;
-- $5 the replica.
-- Guard: a pause is never shortened, whoever comes last. Rows are taken in one order, so that two replicas that park the same
-- destinations cannot wait for each other.

insert into :"outbox_parked" as p (destination, parked_until, reason, trips, replica)
select s.destination, clock_timestamp() + s.seconds * interval '1 second', s.reason, s.trips, $5::text
  from unnest($1::text[], $2::double precision[], $3::text[], $4::integer[]) as s(destination, seconds, reason, trips)
 order by s.destination
    on conflict (destination) do update
   set parked_until = greatest(p.parked_until, excluded.parked_until),
       reason       = excluded.reason,
       trips        = excluded.trips,
       replica      = excluded.replica,
       prober       = null,
       probe_until  = null;
