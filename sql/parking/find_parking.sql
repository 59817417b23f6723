-- Purpose: whether this outbox has a list of parked destinations that the current user may write.
-- Parameters: $1 the outbox table.
-- Guard: reads the catalog only, so that it answers on a schema of before the list and without any right on it.

select coalesce(has_table_privilege(to_regclass(quote_ident($1::text || '_parked')), 'SELECT')
                and has_table_privilege(to_regclass(quote_ident($1::text || '_parked')), 'INSERT')
                and has_table_privilege(to_regclass(quote_ident($1::text || '_parked')), 'UPDATE')
                and has_table_privilege(to_regclass(quote_ident($1::text || '_parked')), 'DELETE'), false) as shares;
