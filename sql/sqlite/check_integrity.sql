-- Purpose: whether the file is whole: `ok`, or its first problem. (SQLite)
-- Parameters: none.
-- Guard: it only reads, all of the file.

select integrity_check
  from pragma_integrity_check
 limit 1;
