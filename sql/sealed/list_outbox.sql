-- Purpose: which rows are open, a bounded number at a time: all of them are to be looked at, and looking at each takes
-- longer than one statement should.
-- Parameters: $1 the id to go on after, empty at the beginning; $2 most ids.
-- Guard: reads only. Ids never change, so that whoever goes through them to the last one has missed no row that was open
-- all the while. "+ 0" keeps the planner off the primary key, along which all finished rows would be passed: the index of
-- open rows alone answers this. One array, since as many rows would take several times the memory.

with looked as (
    select o.id + 0 as id
      from :"outbox" as o
     where o.state in ('pending', 'in_flight')
       and o.id + 0 > coalesce(nullif($1::text, '')::bigint, 0)
     order by o.id + 0
     limit $2::bigint
)
select coalesce(array_agg(l.id::text order by l.id), '{}') as keys,
       case when count(*) = $2::bigint then max(l.id)::text end as after
  from looked as l;
