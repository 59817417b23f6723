-- Purpose: puts newly sealed signing keys in the place of old ones.
-- Parameters: arrays of the same length: $1 keys as list_scope_keys gave them, $2 the nonces that were read, $3 ciphertexts,
-- $4 their nonces, $5 fingerprints of the envelope keys that the old ones were sealed under.
-- Guard: as reseal_outbox, without leases: only what was read is replaced, and what is locked is read again.

with given as materialized (
    select g.key::jsonb ->> 0 as scope, g.key::jsonb ->> 1 as key_id, g.key, g.was, g.ciphertext, g.nonce, g.fingerprint
      from unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::text[])
           as g(key, was, ciphertext, nonce, fingerprint)
),
free as (
    select g.key
      from given as g
      join :"outbox_scope_keys" as k on k.scope = g.scope and k.key_id = g.key_id
     where k.nonce = g.was
       for no key update of k skip locked
),
resealed as (
    update :"outbox_scope_keys" as k
       set sealed = g.ciphertext,
           nonce  = g.nonce
      from free as f
      join given as g on g.key = f.key
     where k.scope = g.scope
       and k.key_id = g.key_id
    returning g.key, k.created_at, g.fingerprint
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
select r.key from resealed as r;
