-- Purpose: up to which row a run goes; what is written later is not meant.
-- Parameters: none.
-- Guard: reads only the end of the primary key.

select coalesce(max(o.id), 0)::bigint as id
  from :"outbox" as o;
