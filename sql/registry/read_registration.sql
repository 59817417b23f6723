-- Purpose: one task's sealed registration as it is stored, for a person who looks into it.
-- Parameters: $1 the task's id.
-- Guard: reads only, and takes no lock. Null columns: the task has no callback, or has ended and was given to the outbox.

select t.account_id,
       t.task_id,
       t.task_type,
       t.state,
       t.webhook_registration,
       t.webhook_registration_nonce
  from decisioning_tasks as t
 where t.task_id = $1::text;
