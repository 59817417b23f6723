-- Purpose: deletes the private keys of a decommissioned scope, which nobody may use any more.
-- Parameters: $1 scope.
-- Guard: only under a tombstone that is committed already: keys of a scope that signs are never deleted.

with gone as (
    delete from :"outbox_scope_keys" as k
     where k.scope = $1::text
       and exists (select from :"outbox_scopes" as s where s.scope = k.scope and s.decommissioned_at is not null)
    returning k.key_id
)
select count(*) as keys from gone;
