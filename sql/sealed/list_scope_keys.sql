-- Purpose: the signing keys of the table of scopes, a bounded number at a time.
-- Parameters: $1 the key to go on after, empty at the beginning; $2 most keys.
-- Guard: reads only. Neither scope nor key id of a key ever changes. There are few of them: they are looked through whole.

with looked as (
    select jsonb_build_array(k.scope, k.key_id)::text collate "C" as key
      from :"outbox_scope_keys" as k
),
further as (
    select l.key from looked as l where l.key > $1::text order by l.key limit $2::bigint
)
select coalesce(array_agg(f.key order by f.key), '{}') as keys,
       case when count(*) = $2::bigint then max(f.key) end as after
  from further as f;
