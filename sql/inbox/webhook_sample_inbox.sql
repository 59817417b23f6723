-- Purpose: how much work is left.
-- Parameters: $1 count no further than this.
-- Guard: reads only, through the partial indexes.

select (select count(*) from (select from adcp_webhook_inbox
                               where state in ('pending', 'retry_wait') and available_at <= clock_timestamp()
                               limit $1) as counted) as due,
       (select count(*) from (select from adcp_webhook_inbox
                               where state = 'leased' and lease_expires_at <= clock_timestamp()
                               limit $1) as counted) as lapsed,
       (select count(*) from (select from adcp_webhook_inbox
                               where state = 'failed'
                               limit $1) as counted) as failed;
