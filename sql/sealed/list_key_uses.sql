-- Purpose: how long ago the newest row was made of each key whose rows were sealed again.
-- Parameters: none.
-- Guard: reads only.

select k.fingerprint,
       extract(epoch from statement_timestamp() - k.newest_row_at)::double precision as seconds_old
  from :"outbox_keys" as k
 order by k.fingerprint;
