-- Purpose: leases due rows to one claimer: pending rows whose time has come, and rows whose holder let its
-- lease lapse. Counts the attempt before it is made, and starts the horizon with the first one.
-- Parameters: $1 most rows, $2 most bytes of ciphertext (one row is always granted), $3 lease token,
-- $4 lease in seconds, $5 and $6 destinations and how many rows each may take, $7 how many any other may take; $8 and $9
-- accounts and how many rows each may take, $10 how many any other may: null where accounts have no share.
-- Guard: SKIP LOCKED, so that no row is granted twice and no claimer waits for another. What is due is asked by
-- the statement's start, which is stable and can use the index; the lease is granted by the clock, after the
-- locks, since now() may lie long before in a transaction. available_at moves to the lease's end, which keeps
-- leased rows out of every later claim's scan; a claimer that looks at the lease only sees no difference.
-- The rows are locked from the first step on, so the last one asks for their ids alone.
-- Rows past their destination's room, or their account's, are locked for the statement's duration and otherwise left alone.
-- A composed row's lease_expires_at is the mark by which other claimers leave it alone, and stays as it is: the end of
-- its lease is in available_at alone.

with full_destinations as (
    select destination
      from unnest($5::text[], $6::integer[]) as given(destination, room)
     where room <= 0
),
full_accounts as (
    select account
      from unnest($8::text[], $9::integer[]) as given(account, room)
     where room <= 0
),
locked as (
    select o.id,
           o.available_at,
           case when octet_length(o.encrypted_body) <= 16777216 then octet_length(o.encrypted_body) else 0 end as bytes,
           left(rtrim(replace(lower(split_part(split_part(split_part(
               coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
               as destination,
           left(coalesce(o.account_id, ''), 200) as account
      from :"outbox" as o
     where o.state in ('pending', 'in_flight')
       and o.available_at <= statement_timestamp()
       and (o.state = 'pending' or o.lease_expires_at is null or o.lease_expires_at <= statement_timestamp()
            or o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00')
       and (o.retry_until is null or o.retry_until > statement_timestamp())
       and left(rtrim(replace(lower(split_part(split_part(split_part(
               coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
           not in (select destination from full_destinations)
       and left(coalesce(o.account_id, ''), 200) not in (select account from full_accounts)
     order by o.available_at, o.id
     limit $1::bigint
       for update of o skip locked
),
ranked as (
    select l.*,
           row_number() over (partition by l.destination order by l.available_at, l.id)
               <= coalesce(given.room, $7::integer)
           and ($10::integer is null
                or row_number() over (partition by l.account order by l.available_at, l.id)
                   <= coalesce(shares.room, $10::integer)) as fits
      from locked as l
      left join unnest($5::text[], $6::integer[]) as given(destination, room)
        on given.destination = l.destination
      left join unnest($8::text[], $9::integer[]) as shares(account, room)
        on shares.account = l.account
),
measured as (
    select r.*,
           sum(r.bytes) over (order by r.available_at, r.id) as bytes_so_far,
           row_number() over (order by r.available_at, r.id) as position
      from ranked as r
     where r.fits
),
granted as materialized (
    select m.*, clock_timestamp() as granted_at
      from measured as m
     where m.bytes_so_far <= $2::bigint
        or m.position = 1
)
update :"outbox" as o
   set state            = 'in_flight',
       attempt_count    = o.attempt_count + 1,
       lease_token      = $3::text,
       lease_expires_at = case when o.state = 'in_flight' and o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00'
                               then o.lease_expires_at
                               else g.granted_at + $4::double precision * interval '1 second' end,
       available_at     = g.granted_at + $4::double precision * interval '1 second',
       first_attempt_at = coalesce(o.first_attempt_at, g.granted_at),
       retry_until      = coalesce(o.retry_until, g.granted_at + o.retry_horizon_seconds * interval '1 second'),
       updated_at       = g.granted_at
  from granted as g
 where o.id = g.id
returning o.id::bigint as id,
          o.account_id,
          o.task_id,
          o.task_type,
          o.terminal_status,
          o.url,
          o.operation_id,
          o.idempotency_key,
          o.signing_scope_id,
          -- 10 MiB of body in base64 inside a legacy envelope stay below 16 MiB; whatever is larger is not ours.
          case when octet_length(o.encrypted_body) <= 16777216 then o.encrypted_body end as encrypted_body,
          octet_length(o.encrypted_body)::bigint as encrypted_bytes,
          o.envelope_nonce,
          o.attempt_count,
          coalesce(o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00', false) as composed,
          g.destination,
          g.position,
          extract(epoch from g.granted_at - statement_timestamp())::double precision as seconds_looking,
          extract(epoch from g.granted_at - g.available_at)::double precision as seconds_due,
          extract(epoch from g.granted_at - o.first_attempt_at)::double precision as seconds_since_first_attempt,
          extract(epoch from o.retry_until - g.granted_at)::double precision as seconds_until_retry_until;
