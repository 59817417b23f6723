-- Purpose: enqueues sealed rows of the demo's host, as a host does in the transaction that completes its tasks.
-- Parameters: one element a row: $1 task ids, $2 URLs, $3 idempotency keys, $4 sealed bodies, $5 nonces.
-- Guard: the table's own constraints check every row: task and key are unique, and the nonce has 12 bytes.

insert into :"outbox"
       (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key,
        encrypted_body, envelope_nonce, retry_horizon_seconds)
select given.task_id, 'acct_demo', 'create_media_buy', 'completed', given.url, 'op_demo', given.idempotency_key,
       given.sealed, given.nonce, 86400
  from unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bytea[])
       as given (task_id, url, idempotency_key, sealed, nonce);
