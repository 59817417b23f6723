-- Purpose: what became of rows that a settle did not settle.
-- Parameters: arrays of the same length: $1 ids, $2 lease tokens.
-- Guard: reads only. A row that is not returned was deleted. A row whose settle was answered by a broken
-- connection is found here in the state it was to get: nothing was lost then.

select o.id::bigint as id,
       -- A composed row that nobody holds waits like a pending one.
       case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end as state,
       o.attempt_count,
       coalesce(o.state = 'in_flight' and o.lease_token = s.lease_token, false) as still_held
  from unnest($1::bigint[], $2::text[]) as s(id, lease_token)
  join :"outbox" as o on o.id = s.id;
