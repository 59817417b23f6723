-- Who delivers from this outbox now, by which keys; and since when no row appeared under a key that is being replaced.
--
-- A row does not name the key that it is sealed under, so neither can be told from the outbox alone: whether every
-- daemon can open what would be sealed under a new key, and whether some host still seals under the old one.
-- Needs: CREATE on the schema.

create table if not exists :"outbox_replicas" (
    -- Host, process and a random part: a process that is started again is another replica.
    replica       text collate "C" primary key,
    host          text not null,
    pid           integer not null,
    version       text not null,
    -- Fingerprints, the key that seals first.
    envelope_keys text[] not null,
    signing_kids  text[] not null,
    started_at    timestamptz not null default clock_timestamp(),
    -- Written every few seconds; a replica that is silent for a minute counts as gone.
    seen_at       timestamptz not null default clock_timestamp()
);

create table if not exists :"outbox_keys" (
    fingerprint   text collate "C" primary key,
    -- When the newest row was made that was sealed under this key and then sealed again under another.
    newest_row_at timestamptz not null
);
