-- Purpose: what became of rows lately, by state and code, for a person who wants to know what is wrong.
-- Parameters: $1 how many of the newest rows are looked at, and how many of those that are open; $2 how far back, in seconds.
-- Guard: reads only, along two indexes and no further than the bounds. Nothing sealed is read, and of the URL the
-- destination alone.

with looked as (
    (select o.id from :"outbox" as o order by o.id desc limit $1::bigint)
     union
    (select o.id from :"outbox" as o where o.state in ('pending', 'in_flight') order by o.available_at, o.id limit $1::bigint)
),
lately as (
    select case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end as state,
           coalesce(split_part(o.last_error, ':', 1), '') as code,
           left(rtrim(replace(lower(split_part(split_part(split_part(
               coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260) as destination,
           o.id
      from looked
      join :"outbox" as o on o.id = looked.id
     where o.updated_at > statement_timestamp() - $2::double precision * interval '1 second'
)
select l.state,
       l.code,
       count(*) as rows,
       count(distinct l.destination) as destinations,
       mode() within group (order by l.destination) as most
  from lately as l
 group by l.state, l.code
 order by count(*) desc, l.state, l.code
 limit 100;
