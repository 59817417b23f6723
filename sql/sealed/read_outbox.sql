-- Purpose: open rows as they are sealed, with the columns that they are bound to.
-- Parameters: $1 ids, $2 most bytes of ciphertext (one is always granted).
-- Guard: reads only, and takes no lock: whoever changes what was read compares the nonce first. A row that is not
-- answered is finished or gone; one that is answered without its ciphertext found no room, or is larger than any body that
-- is delivered. The coalesce keeps the planner on the ids, as in settle_delivered.

with open as (
    select o.*,
           octet_length(o.encrypted_body)::bigint as bytes,
           sum(octet_length(o.encrypted_body)) over (order by o.id) as bytes_so_far,
           row_number() over (order by o.id) as position
      from unnest($1::text[]) as given(key)
      join :"outbox" as o on o.id = given.key::bigint
     where coalesce(o.state in ('pending', 'in_flight'), false)
)
select o.id::text as key,
       o.bytes,
       case when (o.bytes_so_far <= $2::bigint or o.position = 1) and o.bytes <= 16777216
            then o.encrypted_body end as ciphertext,
       o.envelope_nonce as nonce,
       extract(epoch from statement_timestamp() - o.created_at)::double precision as seconds_old,
       coalesce(o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00', false) as composed,
       o.account_id,
       o.task_id,
       o.task_type,
       o.terminal_status,
       o.url,
       o.operation_id,
       o.idempotency_key,
       o.signing_scope_id
  from open as o
 order by o.id;
