-- The outbox: one row for each webhook that a task's end owes, with its body sealed by the host.
--
-- The same objects and names as Python package adcp 9.2.0 makes, so that a table made by either is used by
-- both; on such a table every statement here changes nothing. Nothing but deletion leaves the states
-- delivered, expired and invalid.
-- Needs: CREATE on the schema; ownership of the table where it exists.

create table if not exists :"outbox" (
    id                    bigserial primary key,
    task_id               text collate "C" not null unique,
    account_id            text collate "C" not null,
    task_type             text not null,
    terminal_status       text not null check (terminal_status in ('completed', 'failed')),
    url                   text not null,
    operation_id          text not null,
    idempotency_key       text collate "C" not null unique,
    -- Null: the row is signed with the one fixed key, and its associated data has seven fields.
    signing_scope_id      text collate "C",
    -- AES-256-GCM ciphertext with its tag of 16 bytes at the end.
    encrypted_body        bytea not null,
    envelope_nonce        bytea not null check (octet_length(envelope_nonce) = 12),
    state                 text not null default 'pending'
                          check (state in ('pending', 'in_flight', 'delivered', 'expired', 'invalid')),
    attempt_count         integer not null default 0 check (attempt_count >= 0),
    available_at          timestamptz not null default now(),
    lease_token           text collate "C",
    lease_expires_at      timestamptz,
    created_at            timestamptz not null default now(),
    updated_at            timestamptz not null default now(),
    first_attempt_at      timestamptz,
    retry_until           timestamptz,
    retry_horizon_seconds integer not null check (retry_horizon_seconds between 86400 and 604800),
    delivered_at          timestamptz,
    last_http_status      integer,
    last_error            text,
    check ((first_attempt_at is null) = (retry_until is null)),
    check (retry_until is null or retry_until > first_attempt_at)
);

-- Tables made before signing scopes existed lack it.
alter table :"outbox" add column if not exists signing_scope_id text collate "C";

create index if not exists :"outbox_work_idx" on :"outbox" (available_at, id)
    where state in ('pending', 'in_flight');

create index if not exists :"outbox_retry_until_idx" on :"outbox" (retry_until);
