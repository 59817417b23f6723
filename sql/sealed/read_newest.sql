-- Purpose: the newest rows of the outbox, whatever has become of them: what hosts seal under now.
-- Parameters: $1 the id to go on before, empty at the beginning; $2 most rows; $3 most bytes of ciphertext (one is always
-- granted).
-- Guard: reads only, in the order of the primary key and no further than the bound. Ciphertext as in read_outbox.

with newest as (
    select o.*,
           octet_length(o.encrypted_body)::bigint as bytes
      from :"outbox" as o
     where o.id < coalesce(nullif($1::text, '')::bigint, 9223372036854775807)
     order by o.id desc
     limit $2::bigint
),
measured as (
    select n.*,
           sum(n.bytes) over (order by n.id desc) as bytes_so_far,
           row_number() over (order by n.id desc) as position
      from newest as n
)
select o.id::text as key,
       o.bytes,
       case when (o.bytes_so_far <= $3::bigint or o.position = 1) and o.bytes <= 16777216
            then o.encrypted_body end as ciphertext,
       o.envelope_nonce as nonce,
       extract(epoch from statement_timestamp() - o.created_at)::double precision as seconds_old,
       o.account_id,
       o.task_id,
       o.task_type,
       o.terminal_status,
       o.url,
       o.operation_id,
       o.idempotency_key,
       o.signing_scope_id
  from measured as o
 order by o.id desc;
