-- Purpose: whether tables are there. (SQLite)
-- Parameters: ?1 their names, as a JSON array.
-- Guard: reads the catalog only.

select name
  from sqlite_schema
 where type = 'table'
   and name in (select value from json_each(?1))
 order by name;
