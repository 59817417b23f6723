-- Purpose: wins, for one replica, the right to try destinations whose pause is over.
-- Parameters: $1 destinations, $2 the replica, $3 for how many seconds no other may.
-- Guard: compares and sets in one step; a row that another replica has locked is just being won by it. One that is not
-- listed, or not any more, is nobody's to win: it may be tried. A quarter of a second is for the replica's pause, which
-- began before the database's.

with free as (
    select p.destination
      from :"outbox_parked" as p
     where p.destination = any($1::text[])
       and p.parked_until <= clock_timestamp() + interval '250 milliseconds'
       and (p.probe_until is null or p.probe_until <= clock_timestamp() or p.prober = $2::text)
       for update of p skip locked
),
won as (
    update :"outbox_parked" as p
       set prober      = $2::text,
           probe_until = clock_timestamp() + $3::double precision * interval '1 second'
      from free
     where p.destination = free.destination
    returning p.destination
)
select asked.destination,
       won.destination is not null or p.destination is null as won,
       coalesce(extract(epoch from case when won.destination is null then greatest(p.parked_until, p.probe_until) end
                                   - clock_timestamp()), 0)::double precision as seconds_left
  from unnest($1::text[]) as asked(destination)
  left join won on won.destination = asked.destination
  left join :"outbox_parked" as p on p.destination = asked.destination;
