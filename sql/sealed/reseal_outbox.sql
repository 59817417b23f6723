-- Purpose: puts newly sealed envelopes in the place of old ones.
-- Parameters: arrays of the same length: $1 ids, $2 the nonces that were read, $3 ciphertexts, $4 their nonces,
-- $5 fingerprints of the keys that the old ones were sealed under.
-- Guard: only while the row is open and still has the nonce that was read, so that nothing is ever replaced but what was
-- opened; ciphertext and nonce change together, and a claim reads both of one version of the row. Never under a live lease
-- (of a composed row, see claim_due), though nothing would come of it. SKIP LOCKED, so that neither waits for the other.
-- What is not answered is to be read again. Neither updated_at nor anything that an index holds is touched: to a delivery
-- nothing has happened, and the new version of a row can stay on its page.
-- When the newest row of an old key was made is kept, since what a row was sealed under before cannot be told afterwards.

with given as materialized (
    select g.key::bigint as id, g.was, g.ciphertext, g.nonce, g.fingerprint
      from unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::text[])
           as g(key, was, ciphertext, nonce, fingerprint)
),
free as (
    select o.id
      from given as g
      join :"outbox" as o on o.id = g.id
     where coalesce(o.state in ('pending', 'in_flight') and o.envelope_nonce = g.was, false)
       and not coalesce(o.state = 'in_flight'
                        and case when o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00'
                                 then o.lease_token is not null and o.available_at > statement_timestamp()
                                 else o.lease_expires_at > statement_timestamp() end, false)
       for no key update of o skip locked
),
resealed as (
    update :"outbox" as o
       set encrypted_body = g.ciphertext,
           envelope_nonce = g.nonce
      from free as f
      join given as g on g.id = f.id
     where o.id = f.id
    returning o.id, o.created_at, g.fingerprint
),
noted as (
    insert into :"outbox_keys" as k (fingerprint, newest_row_at)
    select r.fingerprint, least(max(r.created_at), statement_timestamp())
      from resealed as r
     group by r.fingerprint
        on conflict (fingerprint) do update
       set newest_row_at = excluded.newest_row_at
     where k.newest_row_at < excluded.newest_row_at
)
select r.id::text as key from resealed as r;
