-- Signing keys and client certificates by scope, for daemons that take them from here instead of from files.
--
-- What is secret is sealed under the envelope key and bound to its scope and key id: whoever reads the database learns no key,
-- and what is copied to another scope opens nowhere. `outboxd scope` writes here; daemons only read.
-- Needs: CREATE on the schema.

create table if not exists :"outbox_scopes" (
    scope             text collate "C" primary key check (octet_length(scope) between 1 and 255),
    -- What the scope's seller advertises, by RFC 9421 names. A key of another algorithm signs nothing.
    algorithms        text[] not null check (algorithms <@ array['ed25519', 'ecdsa-p256-sha256']),
    -- Sealed PEM: the chain that receivers are shown which demand a client certificate, and its private key.
    client            bytea check (octet_length(client) <= 131072),
    client_nonce      bytea check (octet_length(client_nonce) = 12),
    -- A tombstone: rows of this scope are quarantined.
    decommissioned_at timestamptz,
    created_at        timestamptz not null default now(),
    check ((client is null) = (client_nonce is null)),
    check (decommissioned_at is not null or cardinality(algorithms) > 0)
);

create table if not exists :"outbox_scope_keys" (
    scope      text collate "C" not null references :"outbox_scopes" (scope) on delete cascade,
    key_id     text collate "C" not null check (octet_length(key_id) between 1 and 1024),
    -- Of the public half (RFC 7638): a key id that receivers know must never stand for another key.
    thumbprint text not null,
    -- From when until when it may sign; null is without an end on that side.
    not_before timestamptz,
    not_after  timestamptz,
    -- The sealed private JWK.
    sealed     bytea not null check (octet_length(sealed) <= 16384),
    nonce      bytea not null check (octet_length(nonce) = 12),
    created_at timestamptz not null default now(),
    primary key (scope, key_id),
    check (not_after > not_before)
);

-- Of two keys that begin at one moment, neither would be the newer.
create unique index if not exists :"outbox_scope_keys_idx"
    on :"outbox_scope_keys" (scope, coalesce(not_before, timestamptz '-infinity'));
