-- Purpose: how many rows wait for a later time, are held, or ended undelivered; what is due sample_backlog tells.
-- Parameters: $1 where to stop counting, for each kind.
-- Guard: reads only, by indexes that hold no delivered row, and no further than the bound.

select (select count(*)
          from (select from :"outbox" as o
                 where o.state in ('pending', 'in_flight')
                   and o.available_at > statement_timestamp()
                   and o.lease_token is null
                 limit $1::bigint) as waiting)::bigint as waiting,
       (select count(*)
          from (select from :"outbox" as o
                 where o.state in ('pending', 'in_flight')
                   and o.available_at > statement_timestamp()
                   and o.lease_token is not null
                 limit $1::bigint) as held)::bigint as held,
       count(*) filter (where state = 'invalid') as invalid,
       count(*) filter (where state = 'expired') as expired
  from (select o.state
          from :"outbox" as o
         where o.state in ('expired', 'invalid')
         order by o.id desc
         limit $1::bigint) as ended;
