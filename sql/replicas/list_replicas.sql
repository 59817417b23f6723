-- Purpose: the replicas that are alive, the oldest first.
-- Parameters: none.
-- Guard: reads only. By the database's clock, which also wrote the times, so that no replica's own clock counts.

select r.replica,
       r.version,
       r.envelope_keys,
       r.signing_kids,
       extract(epoch from clock_timestamp() - r.seen_at)::double precision as seconds_unseen
  from :"outbox_replicas" as r
 where r.seen_at > clock_timestamp() - interval '1 minute'
 order by r.started_at, r.replica;
