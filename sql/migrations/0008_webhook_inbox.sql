-- The inbox for AdCP webhooks: what was received, what became of it, and which signatures were seen.
--
-- A delivery is known by its sender and idempotency key, and bound to the payload that came first under them. Its
-- states are those of the notification inbox: pending, leased, retry_wait, succeeded, failed. A delivery that tells
-- what another one told before, of the same task, is bound and kept too, as duplicate, and never handed out.
-- Needs: CREATE on the schema.

create table if not exists adcp_webhook_inbox (
    id               bigint generated always as identity primary key,
    sender           text collate "C" not null check (octet_length(sender) between 1 and 255),
    idempotency_key  text collate "C" not null check (idempotency_key ~ '^[A-Za-z0-9_.:-]{16,255}$'),
    -- Of the payload's canonical form (RFC 8785): another spelling of the same JSON is the same payload.
    payload_sha256   bytea not null check (octet_length(payload_sha256) = 32),
    -- Of the task's id and of what the payload says about its end; set where it says so and says it first. Hashes,
    -- since the id may be of any length and hold characters that text does not.
    task_sha256      bytea check (octet_length(task_sha256) = 32),
    artifact_sha256  bytea check (octet_length(artifact_sha256) = 32),
    -- The bytes that were signed, verbatim.
    body             bytea not null,
    state            text not null default 'pending'
                     check (state in ('pending', 'leased', 'retry_wait', 'succeeded', 'failed', 'duplicate')),
    attempts         integer not null default 0 check (attempts between 0 and max_attempts),
    max_attempts     integer not null check (max_attempts between 1 and 20),
    available_at     timestamptz not null default clock_timestamp(),
    lease_owner      text,
    lease_token      text collate "C",
    lease_expires_at timestamptz,
    last_error_code  text check (last_error_code ~ '^[a-z][a-z0-9_.-]{0,127}$'),
    received_at      timestamptz not null default clock_timestamp(),
    updated_at       timestamptz not null default clock_timestamp(),
    -- When nothing was left to do; retention counts from here.
    settled_at       timestamptz,
    unique (sender, idempotency_key),
    check ((task_sha256 is null) = (artifact_sha256 is null)),
    check ((state = 'leased') = (lease_owner is not null)),
    check ((state = 'leased') = (lease_token is not null)),
    check ((state = 'leased') = (lease_expires_at is not null)),
    check ((state in ('succeeded', 'failed', 'duplicate')) = (settled_at is not null)),
    check ((state in ('retry_wait', 'failed')) = (last_error_code is not null))
);

-- One delivery speaks for the end of a task.
create unique index if not exists adcp_webhook_inbox_task_idx
    on adcp_webhook_inbox (sender, task_sha256) where task_sha256 is not null;
create index if not exists adcp_webhook_inbox_due_idx
    on adcp_webhook_inbox (available_at, id) where state in ('pending', 'retry_wait');
create index if not exists adcp_webhook_inbox_lease_idx
    on adcp_webhook_inbox (lease_expires_at) where state = 'leased';
create index if not exists adcp_webhook_inbox_settled_idx
    on adcp_webhook_inbox (settled_at) where settled_at is not null;
create index if not exists adcp_webhook_inbox_failed_idx on adcp_webhook_inbox (id) where state = 'failed';

-- Signatures that were accepted, until nobody would accept them any more. Shared by all replicas.
create table if not exists adcp_webhook_inbox_nonces (
    keyid      text collate "C" not null,
    nonce      text collate "C" not null,
    expires_at timestamptz not null,
    primary key (keyid, nonce)
);

create index if not exists adcp_webhook_inbox_nonces_expires_idx on adcp_webhook_inbox_nonces (expires_at);

-- The host's functions are made in it. Not "if not exists", which asks for a right even where it does.
do $do$
begin
    if to_regnamespace('outboxd') is null then
        create schema outboxd;
    end if;
end
$do$;
