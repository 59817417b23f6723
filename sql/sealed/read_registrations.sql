-- Purpose: sealed registrations, with the columns that they are bound to.
-- Parameters: $1 task ids, $2 most bytes of ciphertext (one is always granted).
-- Guard: as read_outbox. A task that is not answered has ended: its registration is in the outbox now.

with sealed as (
    select t.task_id,
           t.account_id,
           t.task_type,
           t.webhook_registration,
           t.webhook_registration_nonce,
           t.created_at,
           octet_length(t.webhook_registration)::bigint as bytes,
           sum(octet_length(t.webhook_registration)) over (order by t.task_id) as bytes_so_far,
           row_number() over (order by t.task_id) as position
      from unnest($1::text[]) as given(key)
      join decisioning_tasks as t on t.task_id = given.key
     where t.webhook_registration is not null
)
select t.task_id as key,
       t.bytes,
       case when (t.bytes_so_far <= $2::bigint or t.position = 1) and t.bytes <= 16777216
            then t.webhook_registration end as ciphertext,
       t.webhook_registration_nonce as nonce,
       extract(epoch from statement_timestamp())::double precision - t.created_at as seconds_old,
       t.account_id,
       t.task_id,
       t.task_type
  from sealed as t
 order by t.task_id;
