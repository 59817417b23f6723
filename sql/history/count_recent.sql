-- Purpose: how the attempts of the last minute ended, by code; none is one that was taken.
-- Parameters: $1 where to stop counting.
-- Guard: reads only, what was written down last, and no further than the bound.

select code,
       count(*)::bigint as attempts
  from (select split_part(a.code, ':', 1) as code
          from :"outbox_attempts" as a
         where a.settled_at > statement_timestamp() - interval '1 minute'
           and a.fired_at > statement_timestamp() - interval '1 day'
         limit $1::bigint) as recent
 group by code
 order by 2 desc, 1;
