-- Purpose: deletes finished rows whose horizon has passed. Until then they are the proof of delivery and keep
-- a task from being announced twice.
-- Parameters: $1 most rows; $2 where the batch before ended, in microseconds since 1970, or null for the first one; $3 for how
-- many seconds past its horizon a row stays that was not delivered, so that somebody can see it and requeue it.
-- Guard: only the three states that nothing leaves. SKIP LOCKED, so that two purges share the work and cannot
-- block each other; oldest first, along the index on retry_until. Going on from where the batch before ended as
-- expire_overdue does, or each batch would read again what the ones before have deleted.

with finished as (
    select o.id
      from :"outbox" as o
     where o.state in ('delivered', 'expired', 'invalid')
       and o.retry_until >= coalesce(timestamptz 'epoch' + $2::bigint * interval '1 microsecond', '-infinity')
       and o.retry_until <= statement_timestamp()
       and (o.state = 'delivered' or o.retry_until <= statement_timestamp() - $3::double precision * interval '1 second')
     order by o.retry_until
     limit $1::bigint
       for update of o skip locked
),
deleted as (
    delete from :"outbox" as o
     using finished
     where o.id = finished.id
    returning o.retry_until
)
select count(*) as rows,
       (extract(epoch from max(retry_until)) * 1000000)::bigint as ended_at
  from deleted;
