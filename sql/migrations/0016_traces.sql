-- Where a webhook comes from in the host's own traces (W3C Trace Context), for the rows whose host said it.
--
-- Beside the outbox, since the SDK's table is left as it is, and most rows have none. A row is written in the transaction that
-- enqueues its webhook and goes with it. What stands here is checked when it is sent and not before: a malformed trace
-- must not undo an order.
-- Needs: CREATE on the schema; REFERENCES on the outbox table.

create table if not exists :"outbox_traces" (
    task_id     text collate "C" primary key references :"outbox" (task_id) on delete cascade,
    traceparent text not null,
    tracestate  text
);
