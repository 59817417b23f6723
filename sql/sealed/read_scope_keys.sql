-- Purpose: sealed signing keys, with what they are bound to.
-- Parameters: $1 keys as list_scope_keys gave them, $2 most bytes of ciphertext (one is always granted).
-- Guard: reads only. A key that is not answered was taken away.

with sealed as (
    select g.key, k.scope, k.key_id, k.sealed, k.nonce, k.created_at,
           octet_length(k.sealed)::bigint as bytes,
           sum(octet_length(k.sealed)) over (order by g.key collate "C") as bytes_so_far,
           row_number() over (order by g.key collate "C") as position
      from unnest($1::text[]) as g(key)
      join :"outbox_scope_keys" as k on k.scope = g.key::jsonb ->> 0 and k.key_id = g.key::jsonb ->> 1
)
select s.key,
       s.bytes,
       case when s.bytes_so_far <= $2::bigint or s.position = 1 then s.sealed end as ciphertext,
       s.nonce,
       extract(epoch from statement_timestamp() - s.created_at)::double precision as seconds_old,
       s.scope,
       s.key_id
  from sealed as s
 order by s.key collate "C";
