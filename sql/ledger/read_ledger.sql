-- Purpose: the versions that were applied to this outbox.
-- Parameters: $1 the outbox table.
-- Guard: reads only; an outbox is known by its schema too, since one database may hold several.

select version
  from outboxd.migrations
 where schema_name = current_schema()
   and outbox_table = $1
 order by version;
