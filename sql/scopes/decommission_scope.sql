-- Purpose: puts up a scope's tombstone, also where the scope was never known.
-- Parameters: $1 scope.
-- Guard: the first date stays. Whoever writes the scope meanwhile waits here for the row's lock and then writes nothing, so
-- that the keys can be deleted afterwards, by a statement that sees all of them.

insert into :"outbox_scopes" as s (scope, algorithms, decommissioned_at)
values ($1::text, '{}', clock_timestamp())
    on conflict (scope) do update
   set decommissioned_at = coalesce(s.decommissioned_at, excluded.decommissioned_at),
       client = null,
       client_nonce = null
returning extract(epoch from s.decommissioned_at)::double precision as decommissioned_at;
