-- Purpose: stores rows of a ledger as they are, receipt and state, where nothing of theirs is stored yet; tells how many.
-- Parameters: $1 the rows, as of judge_import.
-- Guard: as accept_notification: the unique constraints decide, both parts of a row are one statement, and the commit waits
-- for the disk. What was stored before stays as it is, so that importing may be broken off and begun again.

with received as (
    insert into cms_terminal_notification_inbox
           (notification_id, event_id, site_id, terminal_status, payload_sha256, payload_json, received_at)
    select notification_id, event_id, site_id, terminal_status, payload_sha256, payload_json, received_at
      from json_to_recordset($1::text::json) as given (
           notification_id text, event_id text, site_id text, terminal_status text, payload_sha256 text,
           payload_json text, received_at double precision, status text, attempts integer, max_attempts integer,
           next_attempt_at double precision, lease_owner text, lease_token text, lease_expires_at double precision,
           last_error_code text, processed_at double precision, created_at double precision,
           updated_at double precision)
     where case when current_setting('synchronous_commit') = 'off'
                then set_config('synchronous_commit', 'on', true)
                else 'as it is'
           end is not null
        on conflict do nothing
    returning notification_id
),
worked as (
    insert into cms_terminal_notification_processing
           (notification_id, status, attempts, max_attempts, next_attempt_at, lease_owner, lease_token, lease_expires_at,
            last_error_code, processed_at, created_at, updated_at)
    select notification_id, status, attempts, max_attempts, next_attempt_at, lease_owner, lease_token, lease_expires_at,
           last_error_code, processed_at, created_at, updated_at
      from json_to_recordset($1::text::json) as given (
           notification_id text, event_id text, site_id text, terminal_status text, payload_sha256 text,
           payload_json text, received_at double precision, status text, attempts integer, max_attempts integer,
           next_attempt_at double precision, lease_owner text, lease_token text, lease_expires_at double precision,
           last_error_code text, processed_at double precision, created_at double precision,
           updated_at double precision)
      join received using (notification_id)
    returning 1
)
select count(*) as rows from worked;
