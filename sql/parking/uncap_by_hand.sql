-- Purpose: allows a destination what the configuration does, at an operator's word.
-- Parameters: $1 the destination, $2 why, $3 who.
-- Guard: the row alone; the note is written by the same statement.

with uncapped as (
    delete from :"outbox_caps" as c
     where c.destination = $1::text
    returning c.destination
)
insert into :"outbox_audit" (run, action, actor, reason, filter)
select gen_random_uuid()::text, 'uncap', $3::text, $2::text, jsonb_build_object('destination', uncapped.destination)
  from uncapped
returning id;
