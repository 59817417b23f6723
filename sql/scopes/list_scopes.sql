-- Purpose: the names of all scopes, a bounded number at a time.
-- Parameters: $1 the scope to go on after, empty at the beginning; $2 most scopes.
-- Guard: reads only. Scopes never change their names, so that whoever goes through them to the end has missed none that was
-- there all the while.

select s.scope
  from :"outbox_scopes" as s
 where s.scope > $1::text
 order by s.scope
 limit $2::bigint;
