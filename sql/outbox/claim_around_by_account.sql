-- Purpose: leases due rows as claim_around does where accounts have a share: what is looked at by name, and told of as left, are
-- not destinations but each account's rows for a destination.
-- Parameters: $1 most rows, $2 most bytes of ciphertext (one row is always granted), $3 lease token, $4 lease in seconds;
-- $5, $6, $7 destinations, how many rows each may take, and how many of it are in flight; $8 how many any other may take;
-- $9, $10 accounts and how many rows each may take, $11 how many any other may; $12, $13 the time and id behind which rows are
-- looked at in their order, $14 how many of them at most; $15, $16, $17 pairs of destination and account, as the index by
-- account spells them, that are looked at by name instead, each behind a time and id of its own, and $18 how many each of
-- these may take.
-- Guard: as in claim_around. Of rows for which both have room, accounts take turns at each destination; what of them is past
-- the destination's room is left, and then what is past the account's, so that neither is ever exceeded and one row is found
-- wherever both have room.

with given as (
    select destination, room, in_flight
      from unnest($5::text[], $6::integer[], $7::integer[]) as given(destination, room, in_flight)
),
shares as (
    select account, room from unnest($9::text[], $10::integer[]) as shares(account, room)
),
-- One row more than there is room for tells whether the pair is left with some.
named as materialized (
    select wanted.pair, n.available_at, n.id
      from unnest($15::text[], $16::timestamptz[], $17::bigint[]) as wanted(pair, available_at, id)
      left join given on given.destination = split_part(wanted.pair, '/', 1)
      left join shares on shares.account = substr(wanted.pair, length(split_part(wanted.pair, '/', 1)) + 2)
     cross join lateral (
           select o.available_at, o.id
             from :"outbox" as o
            where o.state || '' in ('pending', 'in_flight')
              and left(rtrim(replace(lower(split_part(split_part(split_part(
                      coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
                      || '/' || left(coalesce(o.account_id, ''), 200)
                  = wanted.pair
              and (o.available_at, o.id) > (wanted.available_at, wanted.id)
              and o.available_at <= statement_timestamp()
              and (o.state = 'pending' or o.lease_expires_at is null or o.lease_expires_at <= statement_timestamp()
                   or o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00')
              and (o.retry_until is null or o.retry_until > statement_timestamp())
            order by o.available_at, o.id
            limit least(coalesce(given.room, $8::integer), coalesce(shares.room, $11::integer), $18::integer) + 1
           ) as n
),
scanned as materialized (
    select left(rtrim(replace(lower(split_part(split_part(split_part(
               coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
               || '/' || left(coalesce(o.account_id, ''), 200)
               as pair,
           o.available_at,
           o.id
      from :"outbox" as o
     where o.state in ('pending', 'in_flight')
       and (o.available_at, o.id) > ($12::timestamptz, $13::bigint)
       and o.available_at <= statement_timestamp()
       and (o.state = 'pending' or o.lease_expires_at is null or o.lease_expires_at <= statement_timestamp()
            or o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00')
       and (o.retry_until is null or o.retry_until > statement_timestamp())
     order by o.available_at, o.id
     limit $14::bigint
),
found as (
    select pair, available_at, id, $18::integer as most from named
     union all
    select pair, available_at, id, null from scanned where pair <> all ($15::text[])
),
in_turn as (
    select found.*,
           split_part(found.pair, '/', 1) as destination,
           substr(found.pair, length(split_part(found.pair, '/', 1)) + 2) as account,
           coalesce(given.room, $8::integer) as room,
           coalesce(shares.room, $11::integer) as share,
           coalesce(given.in_flight, 0) as in_flight,
           row_number() over (partition by found.pair order by found.available_at, found.id) as turn_of_pair
      from found
      left join given on given.destination = split_part(found.pair, '/', 1)
      left join shares on shares.account = substr(found.pair, length(split_part(found.pair, '/', 1)) + 2)
),
placed as (
    select in_turn.*,
           room > 0 and share > 0 and turn_of_pair <= coalesce(most, turn_of_pair) as may,
           row_number() over (partition by destination, room > 0 and share > 0 and turn_of_pair <= coalesce(most, turn_of_pair)
                                  order by turn_of_pair, available_at, id) as place
      from in_turn
),
shared as (
    select placed.*,
           may and place <= room as fits,
           row_number() over (partition by account, may and place <= room order by place, available_at, id) as place_in_share
      from placed
),
-- Whoever has the fewest rows in flight goes first, so that slots are shared evenly whatever each has waiting.
ranked as materialized (
    select pair, available_at, id,
           fits and place_in_share <= share as fits,
           row_number() over (order by not (fits and place_in_share <= share), in_flight + place, available_at, id) as turn
      from shared
),
-- Found again by their ids, and judged again; coalesce keeps the planner from finding them by anything else.
locked as materialized (
    select r.pair, r.available_at, r.id, r.turn,
           case when octet_length(o.encrypted_body) <= 16777216 then octet_length(o.encrypted_body) else 0 end as bytes
      from ranked as r
      join :"outbox" as o on o.id = r.id
     where r.fits
       and r.turn <= $1::bigint
       and coalesce(o.state in ('pending', 'in_flight')
                and o.available_at <= statement_timestamp()
                and (o.state = 'pending' or o.lease_expires_at is null or o.lease_expires_at <= statement_timestamp()
                     or o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00')
                and (o.retry_until is null or o.retry_until > statement_timestamp()), false)
       for update of o skip locked
),
measured as materialized (
    select locked.*,
           sum(bytes) over (order by turn) <= $2::bigint or row_number() over (order by turn) = 1 as fits
      from locked
),
granted as materialized (
    select pair, available_at, id,
           row_number() over (order by available_at, id) as position,
           clock_timestamp() as granted_at
      from measured
     where fits
),
-- What stays although it was found: for want of room, of rows in this claim, or of bytes.
left_behind as (
    select distinct on (pair) pair, available_at, id
      from (select pair, available_at, id from ranked where not fits or turn > $1::bigint
             union all
            select pair, available_at, id from measured where not fits) as waiting
     order by pair, available_at, id
),
look as (
    select statement_timestamp() as looked_at,
           extract(epoch from coalesce((select min(granted_at) from granted), clock_timestamp()) - statement_timestamp())
               ::double precision as seconds_looking,
           (select count(*) from scanned) as scanned,
           (select available_at from scanned order by available_at desc, id desc limit 1) as last_at,
           (select id::bigint from scanned order by available_at desc, id desc limit 1) as last_id,
           (select coalesce(array_agg(pair), '{}') from left_behind) as left_behind,
           (select coalesce(array_agg(available_at), '{}') from left_behind) as left_at,
           (select coalesce(array_agg(id::bigint), '{}') from left_behind) as left_ids
),
claimed as (
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
              split_part(g.pair, '/', 1) as destination,
              g.position,
              extract(epoch from g.granted_at - g.available_at)::double precision as seconds_due,
              extract(epoch from g.granted_at - o.first_attempt_at)::double precision as seconds_since_first_attempt,
              extract(epoch from o.retry_until - g.granted_at)::double precision as seconds_until_retry_until
)
select claimed.*, look.*
  from claimed
  full join look on false;
