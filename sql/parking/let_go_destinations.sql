-- Purpose: takes destinations off the list that have answered.
-- Parameters: $1 destinations, $2 the replica that knows.
-- Guard: only where nobody knows otherwise: one that was parked anew meanwhile stays, and so does one that another replica is
-- trying, whose word will be the newer one. Locked in one order.

delete from :"outbox_parked" as p
 where p.destination in (select l.destination
                           from :"outbox_parked" as l
                          where l.destination = any($1::text[])
                            and l.parked_until <= clock_timestamp() + interval '250 milliseconds'
                            and (l.probe_until is null or l.probe_until <= clock_timestamp() or l.prober = $2::text)
                          order by l.destination
                            for update);
