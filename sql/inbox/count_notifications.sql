-- Purpose: how many notifications there are in each state, how many are due, how many leases have ended unswept, and how
-- many rows are damaged by the latest sweep.
-- Parameters: none.
-- Guard: it only reads, and but for the leases all of it from an index; its cost follows the number of rows, so it is
-- asked at intervals. The rows themselves are judged by sweep_notifications.

with clock as materialized (select outboxd.inbox_clock() as now)
select count(*) as received,
       count(*) filter (where p.status = 'pending') as pending,
       count(*) filter (where p.status = 'leased') as leased,
       count(*) filter (where p.status = 'retry_wait') as retry_wait,
       count(*) filter (where p.status = 'succeeded') as succeeded,
       count(*) filter (where p.status = 'failed') as failed,
       count(*) filter (where p.status in ('pending', 'retry_wait')
                          and p.next_attempt_at <= (select now from clock)) as due,
       (select count(*) from cms_terminal_notification_processing as l
         where l.status = 'leased' and l.lease_expires_at <= (select now from clock)) as expired,
       (select count(*) from cms_terminal_notification_quarantine) as damaged
  from cms_terminal_notification_processing as p;
