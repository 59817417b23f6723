-- Purpose: stores a notification that is not stored yet, together with the work it means. One row: it is fresh. None:
-- something with its id, its event or its payload is stored already, and compare_notification tells what.
-- Parameters: $1 notification id, $2 event id, $3 site id, $4 terminal status, $5 SHA-256 of the payload, $6 the payload,
-- $7 most attempts.
-- Guard: the unique constraints decide, not a look before; whoever conflicts waits for the other's commit and then does
-- nothing. Receipt and work are one statement, so neither is there without the other. An answer means durable work, so
-- a session that was set to commit without waiting for the disk waits for this one.

with received as (
    insert into cms_terminal_notification_inbox
           (notification_id, event_id, site_id, terminal_status, payload_sha256, payload_json, received_at)
    select $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, outboxd.inbox_clock()
     where case when current_setting('synchronous_commit') = 'off'
                then set_config('synchronous_commit', 'on', true)
                else 'as it is'
           end is not null
        on conflict do nothing
    returning notification_id, received_at
)
insert into cms_terminal_notification_processing
       (notification_id, status, attempts, max_attempts, next_attempt_at, created_at, updated_at)
select notification_id, 'pending', 0, $7::integer, received_at, received_at, received_at
  from received
returning notification_id;
