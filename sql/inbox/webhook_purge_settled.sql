-- Purpose: deletes deliveries that have been done with for the whole retention.
-- Parameters: $1 the retention in seconds, $2 at most so many rows.
-- Guard: a delivery with work left is never deleted, however old; nor one that is locked.

with old as (
    select id
      from adcp_webhook_inbox
     where settled_at <= clock_timestamp() - make_interval(secs => $1)
     order by settled_at
     limit $2
       for update skip locked
), gone as (
    delete from adcp_webhook_inbox as d
     using old
     where d.id = old.id
    returning 1
)
select count(*) as rows from gone;
