-- Purpose: allows a destination no more than so many attempts at once, at an operator's word.
-- Parameters: $1 the destination, $2 how many, $3 why, $4 who.
-- Guard: the newest word counts; the note is written by the same statement.

with capped as (
    insert into :"outbox_caps" as c (destination, most, actor, reason)
    values ($1::text, $2::integer, $4::text, $3::text)
        on conflict (destination) do update
       set most = excluded.most, actor = excluded.actor, reason = excluded.reason, since = excluded.since
    returning c.destination
)
insert into :"outbox_audit" (run, action, actor, reason, filter)
select gen_random_uuid()::text, 'cap', $4::text, $3::text,
       jsonb_build_object('destination', capped.destination, 'most', $2::integer)
  from capped
returning id;
