-- Purpose: how many notifications there are in each state, how many are due, how many leases have ended unswept, and how
-- many rows are damaged by the latest sweep.
-- Parameters: none.
-- Guard: it only reads, and counts along a small index; its cost follows the number of rows all the same, so it is asked at
-- intervals. The rows themselves are judged by sweep_notifications.

with clock as materialized (select outboxd.inbox_clock() as now),
counted as materialized (
    select status, count(*) as rows
      from cms_terminal_notification_processing
     group by status
)
select coalesce(sum(rows), 0)::bigint as received,
       coalesce(sum(rows) filter (where status = 'pending'), 0)::bigint as pending,
       coalesce(sum(rows) filter (where status = 'leased'), 0)::bigint as leased,
       coalesce(sum(rows) filter (where status = 'retry_wait'), 0)::bigint as retry_wait,
       coalesce(sum(rows) filter (where status = 'succeeded'), 0)::bigint as succeeded,
       coalesce(sum(rows) filter (where status = 'failed'), 0)::bigint as failed,
       (select count(*) from cms_terminal_notification_processing as p
         where p.status in ('pending', 'retry_wait') and p.next_attempt_at <= (select now from clock)) as due,
       (select count(*) from cms_terminal_notification_processing as p
         where p.status = 'leased' and p.lease_expires_at <= (select now from clock)) as expired,
       (select count(*) from cms_terminal_notification_quarantine) as damaged
  from counted;
