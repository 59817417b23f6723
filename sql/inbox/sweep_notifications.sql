-- Purpose: judges the next rows in the order of their ids: damaged ones are put into quarantine, mended ones are let go.
-- Parameters: $1 the id after which to begin, empty at first; $2 most rows.
-- Guard: it touches no notification, only the quarantine; a row that changes meanwhile is judged as of the statement's
-- start, and again by the next sweep. Work without a receipt, which the foreign key forbids, is looked for as well.

with ids as materialized (
    select notification_id
      from cms_terminal_notification_inbox
     where notification_id > $1::text
     order by notification_id
     limit $2::bigint
),
-- Each row by itself: joined as a whole, the planner would walk all work from its beginning.
chunk as materialized (
    select ids.notification_id, judged.damage
      from ids,
           lateral (select n.damage from cms_terminal_notifications as n
                     where n.notification_id = ids.notification_id offset 0) as judged
),
judged as (
    select notification_id, damage
      from chunk
     union all
    select p.notification_id, 'processing_state_invalid'
      from cms_terminal_notification_processing as p
     where p.notification_id > $1::text
       -- Up to the chunk's end, or behind it all at the last; every character of an id is below the tilde.
       and p.notification_id <= (select case when count(*) < $2::bigint then '~' else max(notification_id) end from chunk)
       and not exists (select from cms_terminal_notification_inbox as i where i.notification_id = p.notification_id)
),
marked as (
    insert into cms_terminal_notification_quarantine as q (notification_id, damage, found_at)
    select notification_id, damage, outboxd.inbox_clock()
      from judged
     where damage is not null
        on conflict (notification_id) do update set damage = excluded.damage
     where q.damage <> excluded.damage
    returning 1
),
released as (
    delete from cms_terminal_notification_quarantine as q
     where exists (select from chunk as c where c.notification_id = q.notification_id and c.damage is null)
        or not exists (select from cms_terminal_notification_inbox as i where i.notification_id = q.notification_id
                        union all
                       select from cms_terminal_notification_processing as p where p.notification_id = q.notification_id)
    returning 1
)
select (select max(notification_id) from chunk) as last,
       (select count(*) from chunk) as rows,
       (select count(*) from judged where damage is not null) as damaged,
       (select count(*) from released) as released;
