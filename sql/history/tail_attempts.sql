-- Purpose: the attempts that were written down since a moment, the newest of them where there are many.
-- Parameters: $1 the moment in seconds since 1970, $2 account or null, $3 code or null, $4 whether only those that failed are asked
-- for, $5 how many at most.
-- Guard: reads only, of the last two days' partitions. One that commits late is found by whoever asks from a little before the last
-- that was seen, and passes over what it has seen.

select a.attempt,
       a.status,
       a.http_status,
       a.code,
       a.took_ms,
       a.payload_bytes,
       a.account_id,
       a.task_id,
       a.task_type,
       a.idempotency_key,
       a.url,
       a.outbox_id,
       extract(epoch from a.fired_at)::double precision as fired_at,
       extract(epoch from a.settled_at)::double precision as settled_at,
       extract(epoch from statement_timestamp() - a.fired_at)::double precision as fired_ago
  from :"outbox_attempts" as a
 where a.settled_at > to_timestamp($1::double precision)
   and a.fired_at > statement_timestamp() - interval '1 day'
   and ($2::text is null or a.account_id = $2::text)
   and ($3::text is null or split_part(a.code, ':', 1) = $3::text)
   and (not $4::boolean or a.status is distinct from 'success')
 order by a.settled_at desc
 limit $5::bigint;
