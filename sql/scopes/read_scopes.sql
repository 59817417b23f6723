-- Purpose: what of the scopes that somebody holds is no longer as they hold it.
-- Parameters: arrays of the same length: $1 scopes, $2 the stamp under which each is held (empty: it is not held).
-- Guard: reads only, and all of it in one snapshot. The stamp is made of everything that is answered, so that no change goes
-- unseen, whoever made it with whatever tool. What is not answered is as it was; a scope that is not there is answered as
-- unknown, under a stamp of its own.

with held as (
    select h.scope, h.stamp from unnest($1::text[], $2::text[]) as h(scope, stamp)
),
found as (
    select s.scope, s.algorithms, s.decommissioned_at is not null as decommissioned, s.client, s.client_nonce,
           k.key_ids, k.beginnings, k.ends, k.sealed, k.nonces
      from held as h
      join :"outbox_scopes" as s on s.scope = h.scope
     cross join lateral (select coalesce(array_agg(k.key_id order by k.key_id), '{}') as key_ids,
                                coalesce(array_agg(extract(epoch from k.not_before)::double precision order by k.key_id),
                                         '{}') as beginnings,
                                coalesce(array_agg(extract(epoch from k.not_after)::double precision order by k.key_id),
                                         '{}') as ends,
                                coalesce(array_agg(k.sealed order by k.key_id), '{}') as sealed,
                                coalesce(array_agg(k.nonce order by k.key_id), '{}') as nonces
                           from :"outbox_scope_keys" as k
                          where k.scope = s.scope) as k
),
stamped as (
    select h.scope, h.stamp as held, f.scope is not null as known,
           case when f.scope is null then 'unknown' else encode(sha256(convert_to(f::text, 'UTF8')), 'hex') end as stamp,
           f.algorithms, f.decommissioned, f.client, f.client_nonce,
           f.key_ids, f.beginnings, f.ends, f.sealed, f.nonces
      from held as h
      left join found as f on f.scope = h.scope
)
select s.scope, s.known, s.stamp, s.algorithms, s.decommissioned, s.client, s.client_nonce,
       s.key_ids, s.beginnings, s.ends, s.sealed, s.nonces
  from stamped as s
 where s.stamp <> s.held;
