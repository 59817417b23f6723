-- Purpose: which of the host's functions this database lacks, or has with another release's body.
-- Parameters: $1 the outbox table; arrays of the same length: $2 the functions' names, $3 their bodies.
-- Guard: reads the catalog only. Where the functions serve another outbox than this one, none is missing here: a
-- database has one set of them, and an outbox without needs no more than its rows.

with serving as (
    select exists (select
                     from pg_proc as p
                     join pg_namespace as n on n.oid = p.pronamespace
                    where n.nspname = 'outboxd'
                      and p.proname = 'serves'
                      and split_part(obj_description(p.oid, 'pg_proc'), ': ', 2) <> format('%I.%I', current_schema(), $1::text)) as another
)
select null::integer as version,
       'function outboxd.' || wanted.name
           || case when bool_or(p.oid is not null) then ' as of this release' else '' end as object
  from unnest($2::text[], $3::text[]) as wanted(name, body)
  left join (pg_proc as p join pg_namespace as n on n.oid = p.pronamespace and n.nspname = 'outboxd')
    on p.proname = wanted.name
 where not (select another from serving)
 group by wanted.name, wanted.body
having not coalesce(bool_or(p.prosrc = wanted.body), false)
 order by object;
