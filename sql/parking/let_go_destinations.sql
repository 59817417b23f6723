-- Purpose: takes destinations off the list that answered this replica's probe.
-- Parameters: $1 destinations, $2 the replica.
-- Guard: only where the probe is still this replica's: one that was parked anew meanwhile stays. Locked in one order.

delete from :"outbox_parked" as p
 where p.destination in (select l.destination
                           from :"outbox_parked" as l
                          where l.destination = any($1::text[])
                            and l.prober = $2::text
                          order by l.destination
                            for update);
