-- Purpose: which other outbox the host's functions in this database serve. No row: this one, or none.
-- Parameters: $1 the outbox table.
-- Guard: reads the catalog only. The functions are one set for the whole database; whoever replaced them for a second
-- outbox would send the first one's hosts to the wrong table.

select split_part(obj_description(p.oid, 'pg_proc'), ': ', 2) as serving
  from pg_proc as p
  join pg_namespace as n on n.oid = p.pronamespace
 where n.nspname = 'outboxd'
   and p.proname = 'serves'
   and split_part(obj_description(p.oid, 'pg_proc'), ': ', 2) <> format('%I.%I', current_schema(), $1::text);
