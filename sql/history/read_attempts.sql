-- Purpose: the newest attempts of one webhook, the last one first.
-- Parameters: $1 its idempotency key, $2 how many at most.
-- Guard: reads only, by the index on keys.

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
 where a.idempotency_key = $1::text
 order by a.fired_at desc, a.attempt desc
 limit $2::bigint;
