-- Purpose: returns rows for which no attempt was begun, as though they had not been claimed.
-- Parameters: arrays of the same length: $1 ids, $2 lease tokens, $3 delays in seconds.
-- Guard: as settle_delivered. The attempt is uncounted; with the count back at 0 the horizon has not begun
-- either. What the attempts before left in last_http_status and last_error stays.

update :"outbox" as o
   set state            = 'pending',
       attempt_count    = greatest(o.attempt_count - 1, 0),
       first_attempt_at = case when o.attempt_count > 1 then o.first_attempt_at end,
       retry_until      = case when o.attempt_count > 1 then o.retry_until end,
       available_at     = statement_timestamp() + s.delay_seconds * interval '1 second',
       lease_token      = null,
       lease_expires_at = null,
       updated_at       = clock_timestamp()
  from unnest($1::bigint[], $2::text[], $3::double precision[]) as s(id, lease_token, delay_seconds)
 where o.id = s.id
   and coalesce(o.state = 'in_flight' and o.lease_token = s.lease_token, false)
returning o.id::bigint as id, o.state;
