-- Purpose: puts newly sealed client certificates of scopes in the place of old ones.
-- Parameters: arrays of the same length: $1 scopes, $2 the nonces that were read, $3 ciphertexts, $4 their nonces,
-- $5 fingerprints of the envelope keys that the old ones were sealed under.
-- Guard: as reseal_scope_keys.

with given as materialized (
    select *
      from unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::text[])
           as g(scope, was, ciphertext, nonce, fingerprint)
),
free as (
    select s.scope
      from given as g
      join :"outbox_scopes" as s on s.scope = g.scope
     where s.client is not null
       and s.client_nonce = g.was
       for no key update of s skip locked
),
resealed as (
    update :"outbox_scopes" as s
       set client       = g.ciphertext,
           client_nonce = g.nonce
      from free as f
      join given as g on g.scope = f.scope
     where s.scope = f.scope
    returning s.scope, s.created_at, g.fingerprint
),
noted as (
    insert into :"outbox_keys" as n (fingerprint, newest_row_at)
    select r.fingerprint, least(max(r.created_at), statement_timestamp())
      from resealed as r
     group by r.fingerprint
        on conflict (fingerprint) do update
       set newest_row_at = excluded.newest_row_at
     where n.newest_row_at < excluded.newest_row_at
)
select r.scope as key from resealed as r;
