-- Purpose: puts newly sealed registrations in the place of old ones.
-- Parameters: arrays of the same length: $1 task ids, $2 the nonces that were read, $3 ciphertexts, $4 their nonces,
-- $5 fingerprints of the keys that the old ones were sealed under.
-- Guard: as reseal_outbox, without leases: a task is not leased. One that its host is ending at this moment is locked, and
-- its registration moves into the outbox as it is. The host's clock wrote the task's time, so that it is bounded here.

with given as materialized (
    select *
      from unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::text[])
           as g(task_id, was, ciphertext, nonce, fingerprint)
),
free as (
    select t.task_id
      from given as g
      join decisioning_tasks as t on t.task_id = g.task_id
     where t.webhook_registration is not null
       and t.webhook_registration_nonce = g.was
       for no key update of t skip locked
),
resealed as (
    update decisioning_tasks as t
       set webhook_registration       = g.ciphertext,
           webhook_registration_nonce = g.nonce
      from free as f
      join given as g on g.task_id = f.task_id
     where t.task_id = f.task_id
    returning t.task_id, t.created_at, g.fingerprint
),
noted as (
    insert into :"outbox_keys" as k (fingerprint, newest_row_at)
    select r.fingerprint,
           to_timestamp(least(greatest(max(r.created_at), 0), extract(epoch from statement_timestamp())::double precision))
      from resealed as r
     group by r.fingerprint
        on conflict (fingerprint) do update
       set newest_row_at = excluded.newest_row_at
     where k.newest_row_at < excluded.newest_row_at
)
select r.task_id as key from resealed as r;
