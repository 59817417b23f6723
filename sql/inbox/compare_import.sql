-- Purpose: how each row of a ledger stands to what is stored: same, moved_on (its state is another by now),
-- received_again (it came afresh and was not imported), collision, damaged, or missing.
-- Parameters: $1 the rows, as of judge_import.
-- Guard: it only reads, each row afresh from the tables: this is what proves an import.

select given.notification_id,
       case when stored.found is null then 'missing'
            when stored.damaged then 'damaged'
            when stored.found > 1 or not stored.receipt_equal then 'collision'
            when not stored.time_equal then 'received_again'
            when not stored.state_equal then 'moved_on'
            else 'same'
       end as standing
  from json_to_recordset($1::text::json) as given (
           notification_id text, event_id text, site_id text, terminal_status text, payload_sha256 text,
           payload_json text, received_at double precision, status text, attempts integer, max_attempts integer,
           next_attempt_at double precision, lease_owner text, lease_token text, lease_expires_at double precision,
           last_error_code text, processed_at double precision, created_at double precision,
           updated_at double precision)
  left join lateral (
      select count(*) as found,
             bool_or(n.damage is not null) as damaged,
             bool_and((n.notification_id, n.event_id, n.site_id, n.terminal_status, n.payload_sha256, n.payload_json)
                      is not distinct from (given.notification_id, given.event_id, given.site_id, given.terminal_status,
                                            given.payload_sha256, given.payload_json)) as receipt_equal,
             bool_and(n.received_at is not distinct from given.received_at) as time_equal,
             bool_and((n.status, n.attempts, n.max_attempts, n.next_attempt_at, n.lease_owner, n.lease_token,
                       n.lease_expires_at, n.last_error_code, n.processed_at, n.created_at, n.updated_at)
                      is not distinct from (given.status, given.attempts, given.max_attempts, given.next_attempt_at,
                                            given.lease_owner, given.lease_token, given.lease_expires_at,
                                            given.last_error_code, given.processed_at, given.created_at,
                                            given.updated_at)) as state_equal
        from cms_terminal_notifications as n
       where n.notification_id = given.notification_id
          or n.event_id = given.event_id
          or n.payload_sha256 = given.payload_sha256
      having count(*) > 0
  ) as stored on true
 where given.notification_id is not null;
