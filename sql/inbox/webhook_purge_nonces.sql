-- Purpose: forgets nonces of signatures that nobody would accept any more.
-- Parameters: $1 how many seconds longer than needed they are kept, $2 at most so many rows.
-- Guard: expires_at holds the permitted skew already; the margin is for a receiver whose clock lags behind ours.

with old as (
    select keyid, nonce
      from adcp_webhook_inbox_nonces
     where expires_at <= clock_timestamp() - make_interval(secs => $1)
     order by expires_at
     limit $2
       for update skip locked
), gone as (
    delete from adcp_webhook_inbox_nonces as n
     using old
     where n.keyid = old.keyid and n.nonce = old.nonce
    returning 1
)
select count(*) as rows from gone;
