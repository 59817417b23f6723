-- Purpose: takes rows out of delivery for good as outbox/settle_quarantined does, and writes the attempts down beside it.
-- Parameters: arrays of the same length: $1 ids, $2 lease tokens, $3 HTTP statuses or nulls, $4 cause codes; $5 to $12 the
-- attempts, as $4 to $11 of settle_delivered.
-- Guard: as outbox/settle_delivered. An attempt is written only beside its row's settle, and so once, however often this is sent.

with settled as (
    update :"outbox" as o
       set state            = 'invalid',
           lease_token      = null,
           lease_expires_at = null,
           last_http_status = s.http_status,
           last_error       = s.error,
           updated_at       = clock_timestamp()
      from unnest(
        $1::bigint[], $2::text[], $3::integer[], $4::text[], $5::double precision[], $6::integer[], $7::text[],
        $8::integer[], $9::text[], $10::text[], $11::text[], $12::bigint[]
      ) as s(
        id, lease_token, http_status, error, fired_ago, took_ms, status, payload_bytes, attempt_url, notification_type,
        notification_id, sequence_number
      )
     where o.id = s.id
       and coalesce(o.state = 'in_flight' and o.lease_token = s.lease_token, false)
    returning o.id::bigint as id, o.state, o.attempt_count, o.account_id, o.task_id, o.task_type, o.idempotency_key,
              s.http_status, s.error as code, s.fired_ago, s.took_ms, s.status, s.payload_bytes, s.attempt_url,
              s.notification_type, s.notification_id, s.sequence_number
),
written as (
    insert into :"outbox_attempts"
           (fired_at, took_ms, outbox_id, attempt, status, http_status, code, payload_bytes, sequence_number, account_id, task_id,
            task_type, idempotency_key, url, notification_type, notification_id)
    select statement_timestamp() - fired_ago * interval '1 second', took_ms, id, attempt_count, status, http_status, code,
           payload_bytes, sequence_number, account_id, task_id, task_type, idempotency_key, attempt_url, notification_type,
           notification_id
      from settled
)
select id, state
  from settled;
