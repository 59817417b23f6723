-- Purpose: ends failed attempts: the row is due again after a delay, or expired if its horizon has passed.
-- Parameters: arrays of the same length: $1 ids, $2 lease tokens, $3 delays in seconds, $4 HTTP statuses or
-- nulls, $5 cause codes.
-- Guard: as settle_delivered. The horizon is read from the row and never moved.

update :"outbox" as o
   set state            = case when o.retry_until <= statement_timestamp() then 'expired' else 'pending' end,
       available_at     = case when o.retry_until <= statement_timestamp() then o.available_at
                               else statement_timestamp() + s.delay_seconds * interval '1 second' end,
       lease_token      = null,
       lease_expires_at = null,
       last_http_status = s.http_status,
       last_error       = s.error,
       updated_at       = clock_timestamp()
  from unnest($1::bigint[], $2::text[], $3::double precision[], $4::integer[], $5::text[])
       as s(id, lease_token, delay_seconds, http_status, error)
 where o.id = s.id
   and coalesce(o.state = 'in_flight' and o.lease_token = s.lease_token, false)
returning o.id::bigint as id, o.state;
