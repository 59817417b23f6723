-- Purpose: forgets destinations that nobody had a row for since their pause ended an hour ago.
-- Parameters: none.
-- Guard: passes over what another replica is writing, and so waits for nobody.

delete from :"outbox_parked" as p
 where p.destination in (select l.destination
                           from :"outbox_parked" as l
                          where l.parked_until < clock_timestamp() - interval '1 hour'
                            for update skip locked);
