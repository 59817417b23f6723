-- Purpose: what operators did to one row, the last first.
-- Parameters: $1 the row's id, $2 how many of the newest lines are looked at.
-- Guard: reads only, and no further than the bound.

select a.action,
       a.actor,
       a.reason,
       extract(epoch from statement_timestamp() - a.at)::double precision as ago,
       (select substr(f.former, strpos(f.former, ' ') + 1)
          from unnest(a.former_keys) as f (former)
         where split_part(f.former, ' ', 1) = $1::bigint::text
         limit 1) as former_key
  from (select * from :"outbox_audit" order by id desc limit $2::bigint) as a
 where $1::bigint = any (a.ids)
 order by a.id desc
 limit 20;
