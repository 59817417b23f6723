-- Purpose: the next rows that an operator's filter means.
-- Parameters: $1 action, $2 filter as JSON, $3 the id to look behind, $4 the last id to look at, $5 how many rows are looked at.
-- Guard: reads only, along the primary key and no further than the bound.

select f.looked_to, f.ids, f.fresh, f.sealed, f.held
  from outboxd._find_deliveries($1::text, $2::text::jsonb, $3::bigint, $4::bigint, $5::integer) as f;
