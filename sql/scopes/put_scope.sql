-- Purpose: writes a scope, and a key of it, as they are to be from now on.
-- Parameters: $1 scope; $2 algorithms, null to leave them; $3 whether the client certificate is written ($4 sealed, $5 its
-- nonce; null takes it away). $6 key id, null where no key is written; $7 thumbprint, $8 and $9 its window in Unix seconds,
-- $10 sealed, $11 nonce.
-- Guard: a decommissioned scope stays one, a key id stands for the key that it stood for, and a scope that is not there is not
-- made without algorithms: none of it is then answered as written. Both in one statement, so that no daemon sees the one
-- without the other.

with stands as (
    select s.algorithms from :"outbox_scopes" as s where s.scope = $1::text
),
scope as (
    insert into :"outbox_scopes" as s (scope, algorithms, client, client_nonce)
    -- What stands is offered again, since checks are made before a conflict is found; a tombstone's none would not pass them.
    select $1::text, coalesce($2::text[], (select nullif(w.algorithms, '{}') from stands as w), array['ed25519']),
           $4::bytea, $5::bytea
     where $2::text[] is not null
        or exists (select from stands)
        on conflict (scope) do update
       set algorithms   = coalesce($2::text[], s.algorithms),
           client       = case when $3::boolean then excluded.client else s.client end,
           client_nonce = case when $3::boolean then excluded.client_nonce else s.client_nonce end
     where s.decommissioned_at is null
    returning s.scope
),
key as (
    insert into :"outbox_scope_keys" as k (scope, key_id, thumbprint, not_before, not_after, sealed, nonce)
    select s.scope, $6::text, $7::text, to_timestamp($8::double precision), to_timestamp($9::double precision),
           $10::bytea, $11::bytea
      from scope as s
     where $6::text is not null
        on conflict (scope, key_id) do update
       set not_before = excluded.not_before,
           not_after  = excluded.not_after,
           sealed     = excluded.sealed,
           nonce      = excluded.nonce
     where k.thumbprint = excluded.thumbprint
    returning k.key_id
)
select exists (select from scope) as scope_written,
       exists (select from key) as key_written;
