-- Purpose: the trace context of those rows whose host gave them one.
-- Parameters: $1 task ids.
-- Guard: it only reads, by the primary key, and what it reads never changes.

select t.task_id,
       t.traceparent,
       t.tracestate
  from unnest($1::text[]) as given(task_id)
  join :"outbox_traces" as t on t.task_id = given.task_id;
