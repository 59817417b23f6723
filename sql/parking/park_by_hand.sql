-- Purpose: leaves a destination alone at an operator's word.
-- Parameters: $1 the destination, $2 for how many seconds, $3 why, $4 who.
-- Guard: as park_destinations, but the operator's word also shortens a pause; the note is written by the same statement.

with parked as (
    insert into :"outbox_parked" as p (destination, parked_until, reason, trips, replica)
    values ($1::text, clock_timestamp() + $2::double precision * interval '1 second', 'operator', 0, $4::text)
        on conflict (destination) do update
       set parked_until = excluded.parked_until,
           reason       = excluded.reason,
           trips        = excluded.trips,
           replica      = excluded.replica,
           prober       = null,
           probe_until  = null
    returning p.destination
)
insert into :"outbox_audit" (run, action, actor, reason, filter)
select gen_random_uuid()::text, 'park', $4::text, $3::text,
       jsonb_build_object('destination', parked.destination, 'seconds', $2::double precision)
  from parked
returning id;
