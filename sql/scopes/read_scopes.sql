-- Purpose: what of the scopes that somebody holds is no longer as they hold it.
-- Parameters: arrays of the same length: $1 scopes, $2 the stamp under which each is held (empty: it is not held).
-- Guard: reads only, and all of it in one snapshot. The stamp is made of all that there is of a scope, so that no change goes
-- unseen, whoever made it with whatever tool. What is not answered is as it was; a scope that is not there is answered as
-- unknown, under a stamp of its own.

with held as (
    select h.scope, h.stamp from unnest($1::text[], $2::text[]) as h(scope, stamp)
),
stamped as (
    select h.scope, h.stamp as held, s.scope is not null as known,
           case when s.scope is null then 'unknown'
                else encode(sha256(convert_to(concat(s::text, (select string_agg(k::text, ',' order by k.key_id)
                                                                 from :"outbox_scope_keys" as k
                                                                where k.scope = s.scope)), 'UTF8')), 'hex')
           end as stamp,
           s.algorithms, s.decommissioned_at, s.client, s.client_nonce
      from held as h
      left join :"outbox_scopes" as s on s.scope = h.scope
)
select c.scope, c.known, c.stamp, c.algorithms, c.decommissioned_at is not null as decommissioned, c.client, c.client_nonce,
       k.key_ids, k.beginnings, k.ends, k.sealed, k.nonces
  from stamped as c
 cross join lateral (select coalesce(array_agg(k.key_id order by k.key_id), '{}') as key_ids,
                            coalesce(array_agg(extract(epoch from k.not_before)::double precision order by k.key_id),
                                     '{}') as beginnings,
                            coalesce(array_agg(extract(epoch from k.not_after)::double precision order by k.key_id),
                                     '{}') as ends,
                            coalesce(array_agg(k.sealed order by k.key_id), '{}') as sealed,
                            coalesce(array_agg(k.nonce order by k.key_id), '{}') as nonces
                       from :"outbox_scope_keys" as k
                      where k.scope = c.scope) as k
 where c.stamp <> c.held;
