-- Purpose: the scopes that have a client certificate, a bounded number at a time.
-- Parameters: $1 the scope to go on after, empty at the beginning; $2 most scopes.
-- Guard: reads only. Scopes never change their names.

with further as (
    select s.scope
      from :"outbox_scopes" as s
     where s.scope > $1::text
       and s.client is not null
     order by s.scope
     limit $2::bigint
)
select coalesce(array_agg(f.scope order by f.scope), '{}') as keys,
       case when count(*) = $2::bigint then max(f.scope) end as after
  from further as f;
