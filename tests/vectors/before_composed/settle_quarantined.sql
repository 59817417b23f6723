-- Purpose: takes rows out of delivery for good, since no later attempt can end better.
-- Parameters: arrays of the same length: $1 ids, $2 lease tokens, $3 HTTP statuses or nulls, $4 cause codes.
-- Guard: as settle_delivered.

update :"outbox" as o
   set state            = 'invalid',
       lease_token      = null,
       lease_expires_at = null,
       last_http_status = s.http_status,
       last_error       = s.error,
       updated_at       = clock_timestamp()
  from unnest($1::bigint[], $2::text[], $3::integer[], $4::text[]) as s(id, lease_token, http_status, error)
 where o.id = s.id
   and coalesce(o.state = 'in_flight' and o.lease_token = s.lease_token, false)
returning o.id::bigint as id, o.state;
