-- Purpose: ends open rows whose horizon has passed.
-- Parameters: $1 most rows; $2 where the batch before ended, in microseconds since 1970, or null for the first one.
-- Guard: never a row under a live lease: its holder may have the receiver's 2xx in hand and must be able to
-- record it. A composed row that is leased has a token, and its lease's end in available_at. SKIP LOCKED, so that it waits
-- for no one; what it passed over so, or came in behind it, is found by the next first batch. Asked in the order of its own
-- partial index, which holds open rows alone, and never on the way of a claim. Going on from where the batch before ended
-- leaves the entries of ended rows behind, which a snapshot that somebody holds keeps from being removed.

with overdue as (
    select o.id,
           o.retry_until
      from :"outbox" as o
     where o.state in ('pending', 'in_flight')
       and o.retry_until >= coalesce(timestamptz 'epoch' + $2::bigint * interval '1 microsecond', '-infinity')
       and o.retry_until <= statement_timestamp()
       and (o.state = 'pending' or o.lease_expires_at is null or o.lease_expires_at <= statement_timestamp()
            or (o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00'
                and (o.lease_token is null or o.available_at <= statement_timestamp())))
     order by o.retry_until
     limit $1::bigint
       for update of o skip locked
),
ended as (
    update :"outbox" as o
       set state            = 'expired',
           lease_token      = null,
           lease_expires_at = null,
           updated_at       = clock_timestamp()
      from overdue
     where o.id = overdue.id
    returning o.retry_until
)
select count(*) as rows,
       (extract(epoch from max(retry_until)) * 1000000)::bigint as ended_at
  from ended;
