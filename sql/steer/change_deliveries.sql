-- Purpose: requeues, cancels, expires or purges rows that were found.
-- Parameters: $1 action, $2 filter as JSON, $3 ids, $4 how far the run will have come, $5 run, $6 actor, $7 reason.
-- Guard: each row is judged again under its lock, and never one under a live lease. What was done is noted by the same
-- transaction.

select c.changed, c.fresh, c.held, c.sealed
  from outboxd._change_deliveries($1::text, $2::text::jsonb, $3::bigint[], $4::bigint, $5::text, $6::text, $7::text) as c;
