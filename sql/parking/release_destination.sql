-- Purpose: lets a destination go at an operator's word.
-- Parameters: $1 the destination.
-- Guard: the row alone; each replica sees within a second that it is gone, and begins with one attempt at a time.

delete from :"outbox_parked" as p
 where p.destination = $1::text
returning p.destination;
