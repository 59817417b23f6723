-- Purpose: records that receivers took rows.
-- Parameters: arrays of the same length: $1 ids, $2 lease tokens, $3 HTTP statuses.
-- Guard: a row is settled only while it is in flight under the very token it was claimed with. What is not
-- returned was lost to another holder, or is settled already: read_lost tells which. The coalesce keeps the
-- planner from walking a partial index of open rows, which stale statistics call small, instead of looking up
-- each id.

update :"outbox" as o
   set state            = 'delivered',
       delivered_at     = clock_timestamp(),
       lease_token      = null,
       lease_expires_at = null,
       last_http_status = s.http_status,
       last_error       = null,
       updated_at       = clock_timestamp()
  from unnest($1::bigint[], $2::text[], $3::integer[]) as s(id, lease_token, http_status)
 where o.id = s.id
   and coalesce(o.state = 'in_flight' and o.lease_token = s.lease_token, false)
returning o.id::bigint as id, o.state;
