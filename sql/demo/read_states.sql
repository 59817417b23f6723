-- Purpose: what became of the demo's rows, by URL and state, and how many of them took more than one attempt.
-- Parameters: none.
-- Guard: it only reads.

select url,
       state,
       count(*)::bigint                                  as rows,
       count(*) filter (where attempt_count > 1)::bigint as retried
  from :"outbox"
 group by url, state;
