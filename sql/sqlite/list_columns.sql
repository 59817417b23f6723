-- Purpose: the columns of a ledger's table, in their order. (SQLite)
-- Parameters: ?1 the table.
-- Guard: reads the catalog only; the hidden kind is shown as well.

select name
  from pragma_table_xinfo(?1)
 order by cid;
