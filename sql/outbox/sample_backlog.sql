-- Purpose: how many rows are due, up to a bound, how long the oldest of them has been, and how long the oldest of those whose
-- destination is not parked.
-- Parameters: $1 where to stop counting, $2 destinations that are parked.
-- Guard: reads only, in the order of the index that claims use, and no further than the bound: its cost follows
-- the bound, not the table. Rows that wait for a later time or under a live lease are not due. Where nothing is parked, no
-- row's destination is worked out.

select count(*) as due,
       coalesce(extract(epoch from clock_timestamp() - min(available_at)), 0)::double precision as oldest_seconds,
       extract(epoch from clock_timestamp() - min(available_at) filter (where not is_parked))::double precision
           as claimable_seconds
  from (
      select o.available_at,
             case when cardinality($2::text[]) = 0 then false
                  else left(rtrim(replace(lower(split_part(split_part(split_part(
                           coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
                       in (select unnest($2::text[]))
             end as is_parked
        from :"outbox" as o
       where o.state in ('pending', 'in_flight')
         and o.available_at <= statement_timestamp()
         and (o.state = 'pending' or o.lease_expires_at is null or o.lease_expires_at <= statement_timestamp()
              or o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00')
         and (o.retry_until is null or o.retry_until > statement_timestamp())
       order by o.available_at, o.id
       limit $1::bigint
  ) as due_rows;
