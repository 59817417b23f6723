-- Purpose: finished sealed rows past their horizon, whose bodies are to get fresh idempotency keys.
-- Parameters: $1 ids, $2 most bytes of ciphertext (one is always granted).
-- Guard: reads only, and takes no lock: whoever replaces what was read compares the nonce first. A row that is not answered
-- is not finished any more, or gone; one without ciphertext found no room, or is larger than any body that is delivered.

with past as (
    select o.*,
           octet_length(o.encrypted_body)::bigint as bytes,
           sum(octet_length(o.encrypted_body)) over (order by o.id) as bytes_so_far,
           row_number() over (order by o.id) as position
      from :"outbox" as o
     where o.id = any ($1::bigint[])
       and coalesce(o.state in ('delivered', 'expired', 'invalid') and o.retry_until <= statement_timestamp(), false)
)
select o.id::bigint as id,
       o.account_id,
       o.task_id,
       o.task_type,
       o.terminal_status,
       o.url,
       o.operation_id,
       o.idempotency_key,
       o.signing_scope_id,
       case when (o.bytes_so_far <= $2::bigint or o.position = 1) and o.bytes <= 16777216
            then o.encrypted_body end as encrypted_body,
       o.bytes > 16777216 as too_large,
       o.envelope_nonce,
       o.attempt_count,
       o.state,
       o.last_error
  from past as o
 order by o.id;
