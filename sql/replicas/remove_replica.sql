-- Purpose: takes a replica that stops off the list.
-- Parameters: $1 the replica.
-- Guard: its own row alone. One that is killed leaves its row behind, which counts for a minute more.

delete from :"outbox_replicas" as r
 where r.replica = $1::text;
