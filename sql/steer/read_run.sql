-- Purpose: where a run that was interrupted stands, and what it was for.
-- Parameters: $1 the run.
-- Guard: reads only. No row: there is no such run, or it changed nothing.

select a.action, a.reason, a.filter::text as filter, max(a.through) as through, sum(cardinality(a.ids))::bigint as rows
  from :"outbox_audit" as a
 where a.run = $1::text
 group by a.action, a.reason, a.filter
 order by max(a.id) desc
 limit 1;
