-- Purpose: lets a destination go at an operator's word.
-- Parameters: $1 the destination, $2 why, $3 who.
-- Guard: the row alone; each replica sees within a second that it is gone, and begins with one attempt at a time. The note
-- is written by the same statement.

with released as (
    delete from :"outbox_parked" as p
     where p.destination = $1::text
    returning p.destination
)
insert into :"outbox_audit" (run, action, actor, reason, filter)
select gen_random_uuid()::text, 'release', $3::text, $2::text, jsonb_build_object('destination', released.destination)
  from released
returning id;
