-- Purpose: stores those of several notifications that are not stored yet, each together with the work it means, and
-- returns their ids. Of the others something is stored already, as compare_notification tells of each.
-- Parameters: $1 notification ids, $2 event ids, $3 site ids, $4 terminal statuses, $5 SHA-256 of the payloads, $6 the
-- payloads, $7 most attempts.
-- Guard: as of accept_notification, one commit for all. In the order of their ids, so that two of these seldom wait for
-- each other; where they do all the same, one is refused as a whole and its notifications are accepted one by one.

with received as (
    insert into cms_terminal_notification_inbox
           (notification_id, event_id, site_id, terminal_status, payload_sha256, payload_json, received_at)
    select new.*, (select outboxd.inbox_clock())
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
           as new (notification_id, event_id, site_id, terminal_status, payload_sha256, payload_json)
     where case when current_setting('synchronous_commit') = 'off'
                then set_config('synchronous_commit', 'on', true)
                else 'as it is'
           end is not null
     order by new.notification_id
        on conflict do nothing
    returning notification_id, received_at
)
insert into cms_terminal_notification_processing
       (notification_id, status, attempts, max_attempts, next_attempt_at, created_at, updated_at)
select notification_id, 'pending', 0, $7::integer, received_at, received_at, received_at
  from received
returning notification_id;
