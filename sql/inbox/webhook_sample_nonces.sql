-- Purpose: how many nonces are kept, by key id.
-- Parameters: none.
-- Guard: reads only. The table is bounded by the caps.

select keyid,
       count(*) as nonces
  from adcp_webhook_inbox_nonces
 group by keyid;
