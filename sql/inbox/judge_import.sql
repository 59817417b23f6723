-- Purpose: which rows of a ledger are damaged, by the rules that stored rows are held to.
-- Parameters: $1 the rows, a JSON array of objects named as the columns of both tables.
-- Guard: it reads nothing but its parameter.

select coalesce(notification_id, '') as notification_id,
       damage
  from (
      select notification_id,
             case when not (cms_terminal_notification_bound(notification_id, event_id, site_id, terminal_status,
                                                            payload_sha256, payload_json)
                            and coalesce(received_at >= 0 and received_at < 'infinity', false))
                  then 'stored_binding_invalid'
                  when not (cms_terminal_notification_lawful(status, attempts, max_attempts, next_attempt_at,
                                                             lease_owner, lease_token, lease_expires_at,
                                                             last_error_code, processed_at, created_at, updated_at)
                            and created_at is not distinct from received_at)
                  then 'processing_state_invalid'
             end as damage
        from json_to_recordset($1::text::json) as given (
           notification_id text, event_id text, site_id text, terminal_status text, payload_sha256 text,
           payload_json text, received_at double precision, status text, attempts integer, max_attempts integer,
           next_attempt_at double precision, lease_owner text, lease_token text, lease_expires_at double precision,
           last_error_code text, processed_at double precision, created_at double precision,
           updated_at double precision)
  ) as judged
 where damage is not null
 order by notification_id;
