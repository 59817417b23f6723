-- Purpose: sealed client certificates of scopes.
-- Parameters: $1 scopes, $2 most bytes of ciphertext (one is always granted).
-- Guard: reads only. A scope that is not answered has no client certificate any more.

with sealed as (
    select s.scope, s.client, s.client_nonce, s.created_at,
           octet_length(s.client)::bigint as bytes,
           sum(octet_length(s.client)) over (order by s.scope) as bytes_so_far,
           row_number() over (order by s.scope) as position
      from unnest($1::text[]) as g(key)
      join :"outbox_scopes" as s on s.scope = g.key
     where s.client is not null
)
select s.scope as key,
       s.bytes,
       case when s.bytes_so_far <= $2::bigint or s.position = 1 then s.client end as ciphertext,
       s.client_nonce as nonce,
       extract(epoch from statement_timestamp() - s.created_at)::double precision as seconds_old,
       s.scope
  from sealed as s
 order by s.scope;
