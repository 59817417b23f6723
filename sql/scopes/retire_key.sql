-- Purpose: ends a key's time of signing.
-- Parameters: $1 scope, $2 key id, $3 the end in Unix seconds.
-- Guard: only ever earlier: what was to end before ends then. A key that would not have begun by then is taken away instead,
-- since it signed nothing. The condition is looked at again under the row's lock.

with ended as (
    update :"outbox_scope_keys" as k
       set not_after = least(k.not_after, to_timestamp($3::double precision))
     where k.scope = $1::text
       and k.key_id = $2::text
       and (k.not_before is null or k.not_before < to_timestamp($3::double precision))
    returning extract(epoch from k.not_after)::double precision as ends
),
gone as (
    delete from :"outbox_scope_keys" as k
     where k.scope = $1::text
       and k.key_id = $2::text
       and k.not_before >= to_timestamp($3::double precision)
    returning k.key_id
)
select e.ends from ended as e
 union all
select null from gone as g;
