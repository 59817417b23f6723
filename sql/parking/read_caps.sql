-- Purpose: how many attempts at once operators allow destinations.
-- Parameters: $1 most destinations.
-- Guard: reads only.

select c.destination,
       c.most,
       c.actor,
       c.reason,
       extract(epoch from clock_timestamp() - c.since)::double precision as seconds
  from :"outbox_caps" as c
 order by c.destination
 limit $1::bigint;
