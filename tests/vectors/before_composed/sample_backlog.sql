-- Purpose: how many rows are due, up to a bound, and how long the oldest of them has been.
-- Parameters: $1 where to stop counting.
-- Guard: reads only, in the order of the index that claims use, and no further than the bound: its cost follows
-- the bound, not the table. Rows that wait for a later time or under a live lease are not due.

select count(*) as due,
       coalesce(extract(epoch from clock_timestamp() - min(available_at)), 0)::double precision as oldest_seconds
  from (
      select o.available_at
        from :"outbox" as o
       where o.state in ('pending', 'in_flight')
         and o.available_at <= statement_timestamp()
         and (o.state = 'pending' or o.lease_expires_at is null or o.lease_expires_at <= statement_timestamp())
         and (o.retry_until is null or o.retry_until > statement_timestamp())
       order by o.available_at, o.id
       limit $1::bigint
  ) as due_rows;
