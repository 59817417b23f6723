-- Purpose: whether this outbox has a list of caps by hand that the current user may read.
-- Parameters: $1 the outbox table.
-- Guard: reads the catalog only, so that it answers on a schema of before the list and without any right on it.

select coalesce(has_table_privilege(to_regclass(quote_ident($1::text || '_caps')), 'SELECT'), false) as present;
