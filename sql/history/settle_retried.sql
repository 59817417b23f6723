-- Purpose: ends failed attempts as outbox/settle_retried does, and writes the attempts down beside it.
-- Parameters: arrays of the same length: $1 ids, $2 lease tokens, $3 delays in seconds, $4 HTTP statuses or nulls, $5 cause codes;
-- $6 to $13 the attempts, as $4 to $11 of settle_delivered.
-- Guard: as outbox/settle_retried. An attempt is written only beside its row's settle, and so once, however often this is sent.

with settled as (
    update :"outbox" as o
       set state            = case when o.retry_until <= statement_timestamp() then 'expired'
                                   when o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00' then 'in_flight'
                                   else 'pending' end,
           available_at     = case when o.retry_until <= statement_timestamp() then o.available_at
                                   else statement_timestamp() + s.delay_seconds * interval '1 second' end,
           lease_token      = null,
           lease_expires_at = case when o.retry_until <= statement_timestamp() then null
                                   when o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00' then o.lease_expires_at end,
           last_http_status = s.http_status,
           last_error       = s.error,
           updated_at       = clock_timestamp()
      from unnest(
        $1::bigint[], $2::text[], $3::double precision[], $4::integer[], $5::text[], $6::double precision[],
        $7::integer[], $8::text[], $9::integer[], $10::text[], $11::text[], $12::text[], $13::bigint[]
      ) as s(
        id, lease_token, delay_seconds, http_status, error, fired_ago, took_ms, status, payload_bytes, attempt_url,
        notification_type, notification_id, sequence_number
      )
     where o.id = s.id
       and coalesce(o.state = 'in_flight' and o.lease_token = s.lease_token, false)
    returning o.id::bigint as id,
              case o.state when 'in_flight' then 'pending' else o.state end as state,
              o.attempt_count, o.account_id, o.task_id, o.task_type, o.idempotency_key,
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
