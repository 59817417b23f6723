-- Purpose: says that a replica is alive, and which keys it holds. Forgets those that were silent for a day.
-- Parameters: $1 the replica, $2 its host, $3 its process, $4 its version, $5 fingerprints of its envelope keys, the one
-- that seals first, $6 the ids of its signing keys.
-- Answers how many are alive, this one among them.
-- Guard: a replica writes no row but its own. Among the forgotten it never finds itself, since one statement may not
-- delete a row and insert it again.

with forgotten as (
    delete from :"outbox_replicas" as r
     where r.seen_at < clock_timestamp() - interval '1 day'
       and r.replica <> $1::text
)
insert into :"outbox_replicas" as r (replica, host, pid, version, envelope_keys, signing_kids)
values ($1::text, $2::text, $3::integer, $4::text, $5::text[], $6::text[])
    on conflict (replica) do update
   set envelope_keys = excluded.envelope_keys,
       signing_kids  = excluded.signing_kids,
       seen_at       = clock_timestamp()
returning 1 + (select count(*)
                 from :"outbox_replicas" as other
                where other.replica <> $1::text
                  and other.seen_at > clock_timestamp() - interval '1 minute') as alive;
