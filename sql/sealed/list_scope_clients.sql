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
select f.scope as key,
       true as sealed,
       count(*) over () < $2::bigint as final
  from further as f
 order by f.scope;
