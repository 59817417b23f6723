-- Purpose: ends open rows whose horizon has passed.
-- Parameters: $1 most rows.
-- Guard: never a row under a live lease: its holder may have the receiver's 2xx in hand and must be able to
-- record it. SKIP LOCKED, so that it waits for no one. Asked in the order of its own partial index, which holds
-- open rows alone, and never on the way of a claim.

with overdue as (
    select o.id
      from :"outbox" as o
     where o.state in ('pending', 'in_flight')
       and o.retry_until <= statement_timestamp()
       and (o.state = 'pending' or o.lease_expires_at is null or o.lease_expires_at <= statement_timestamp())
     order by o.retry_until
     limit $1::bigint
       for update of o skip locked
)
update :"outbox" as o
   set state            = 'expired',
       lease_token      = null,
       lease_expires_at = null,
       updated_at       = clock_timestamp()
  from overdue
 where o.id = overdue.id
returning o.id::bigint as id, o.state;
