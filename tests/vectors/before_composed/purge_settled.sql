-- Purpose: deletes finished rows whose horizon has passed. Until then they are the proof of delivery and keep
-- a task from being announced twice.
-- Parameters: $1 most rows.
-- Guard: only the three states that nothing leaves. SKIP LOCKED, so that two purges share the work and cannot
-- block each other; oldest first, along the index on retry_until.

with finished as (
    select o.id
      from :"outbox" as o
     where o.state in ('delivered', 'expired', 'invalid')
       and o.retry_until <= statement_timestamp()
     order by o.retry_until
     limit $1::bigint
       for update of o skip locked
),
deleted as (
    delete from :"outbox" as o
     using finished
     where o.id = finished.id
    returning o.id
)
select count(*) as rows from deleted;
