-- Purpose: one row as it is stored, for a person who looks into it.
-- Parameters: $1 the row's id, or null; $2 its task's id, or null.
-- Guard: reads only, and takes no lock. Ids and task ids are unique, so that there is at most one answer for each.

select o.id::bigint as id,
       o.account_id,
       o.task_id,
       o.task_type,
       o.terminal_status,
       o.url,
       o.operation_id,
       o.idempotency_key,
       o.signing_scope_id,
       o.encrypted_body,
       o.envelope_nonce,
       o.attempt_count,
       o.state,
       o.last_error
  from :"outbox" as o
 where o.id = $1::bigint or o.task_id = $2::text
 order by o.id;
