-- The inbox of terminal notifications: what was received, byte for byte, and how far its processing is.
--
-- The tables have the names, columns and meaning of the source CMS's SQLite ledger, version 2; times are Unix seconds
-- as there, so that an imported row is the same row. What that ledger checks in code on every call, on every row, is
-- held by constraints here; what slips past them (a restore, a superuser) is found by column damage of the view, one
-- row at a time, and named in the quarantine.
-- Needs: CREATE on the schema; CREATE on the database where schema outboxd is missing.

-- Whether a receipt is what its payload says: the canonical form's shape, the fields, the derived id, the digest. A
-- lawful payload is ASCII without backslashes or quotes inside values, so that text operations decide it exactly; the
-- detour over "escape" makes bytes of any other text too, and is immutable, which convert_to is not.
create or replace function cms_terminal_notification_bound(
    notification_id text, event_id text, site_id text, terminal_status text, payload_sha256 text, payload_json text
) returns boolean
    language sql immutable
as $$
    select coalesce(
        octet_length(payload_json) <= 16384
        and payload_json ~ ('^\{"change_sha256":"[0-9a-f]{64}","event_id":"[A-Za-z0-9_.:-]+","job_count":[1-9][0-9]*,'
            || '"lifecycle_binding_sha256":"[0-9a-f]{64}","lifecycle_sha256":(?:null|"[0-9a-f]{64}"),'
            || '"notification_id":"terminal-[0-9a-f]{64}","plan_id":"[A-Za-z0-9_.:-]+",'
            || '"schema":"blun\.cms-source-terminal-notification\.v1","site_id":"[A-Za-z0-9_.:-]+",'
            || '"source_sequence":[1-9][0-9]*,"terminal_status":"(?:cancelled|deleted|deletion_failed|localization_failed'
            || '|publication_blocked|publication_failed|published|superseded)","website_version":"[A-Za-z0-9_.:-]+"\}$')
        and strpos(payload_json, ',"notification_id":"' || notification_id || '",') > 0
        and strpos(payload_json, ',"event_id":"' || event_id || '",') > 0
        and strpos(payload_json, ',"site_id":"' || site_id || '",') > 0
        and strpos(payload_json, ',"terminal_status":"' || terminal_status || '",') > 0
        and length(event_id) <= 256
        and length(site_id) <= 256
        and length(split_part(split_part(payload_json, '"plan_id":"', 2), '"', 1)) <= 256
        and length(split_part(split_part(payload_json, '"website_version":"', 2), '"', 1)) <= 256
        and length(split_part(split_part(payload_json, '"job_count":', 2), ',', 1)) <= 4300
        and length(split_part(split_part(payload_json, '"source_sequence":', 2), ',', 1)) <= 4300
        and (strpos(payload_json, '"lifecycle_sha256":null') > 0) = (terminal_status in ('cancelled', 'superseded'))
        and payload_sha256 = encode(sha256(decode(replace(payload_json, '\', '\\'), 'escape')), 'hex')
        and notification_id = 'terminal-' || encode(sha256(decode(
            replace(payload_json, '"notification_id":"' || notification_id || '",', ''), 'escape')), 'hex'),
        false)
$$;

-- Whether a row's processing state is one that the operations can produce.
create or replace function cms_terminal_notification_lawful(
    status text, attempts integer, max_attempts integer, next_attempt_at double precision,
    lease_owner text, lease_token text, lease_expires_at double precision,
    last_error_code text, processed_at double precision, created_at double precision, updated_at double precision
) returns boolean
    language sql immutable
as $$
    select coalesce(
        status in ('pending', 'leased', 'retry_wait', 'succeeded', 'failed')
        and max_attempts between 1 and 20
        and attempts between 0 and max_attempts
        and (status = 'pending') = (attempts = 0)
        and created_at >= 0
        -- Postgres puts NaN above infinity, so that this keeps out both.
        and greatest(created_at, updated_at, next_attempt_at) < 'infinity'
        and next_attempt_at >= created_at
        and updated_at >= created_at
        and case when status = 'leased'
            then lease_owner ~ '^[A-Za-z0-9_.:-]+$' and length(lease_owner) <= 256
                 and lease_token ~ '^[A-Za-z0-9_.:-]+$' and length(lease_token) <= 256
                 and lease_expires_at > updated_at and lease_expires_at < 'infinity'
            else num_nonnulls(lease_owner, lease_token, lease_expires_at) = 0
            end
        and case when status in ('retry_wait', 'failed')
            then last_error_code ~ '^[a-z][a-z0-9_.-]*$' and length(last_error_code) <= 128
            else last_error_code is null
            end
        and case when status = 'succeeded'
            then processed_at >= created_at and processed_at < 'infinity'
            else processed_at is null
            end,
        false)
$$;

create table if not exists cms_terminal_notification_inbox (
    notification_id text collate "C" primary key,
    -- One event has one notification, whatever its site.
    event_id        text collate "C" not null unique,
    site_id         text collate "C" not null,
    terminal_status text collate "C" not null,
    payload_sha256  text collate "C" not null unique,
    -- The accepted bytes. Never jsonb, which loses their order, their spelling and large integers.
    payload_json    text collate "C" not null,
    received_at     double precision not null,
    constraint cms_terminal_notification_inbox_bound check (
        cms_terminal_notification_bound(notification_id, event_id, site_id, terminal_status, payload_sha256, payload_json)),
    constraint cms_terminal_notification_inbox_received_at check (received_at >= 0 and received_at < 'infinity')
);

create table if not exists cms_terminal_notification_processing (
    notification_id  text collate "C" primary key
                     references cms_terminal_notification_inbox (notification_id) on delete restrict,
    status           text collate "C" not null,
    attempts         integer not null,
    -- Fixed when the notification was accepted.
    max_attempts     integer not null,
    next_attempt_at  double precision not null,
    lease_owner      text collate "C",
    lease_token      text collate "C",
    lease_expires_at double precision,
    last_error_code  text collate "C",
    processed_at     double precision,
    created_at       double precision not null,
    updated_at       double precision not null,
    constraint cms_terminal_notification_processing_lawful check (
        cms_terminal_notification_lawful(status, attempts, max_attempts, next_attempt_at, lease_owner, lease_token,
                                         lease_expires_at, last_error_code, processed_at, created_at, updated_at))
);

-- The order of claims. It holds only what waits, so that its size follows the backlog; the last column lets a claim
-- pass over rows that are not due without fetching them.
create index if not exists cms_terminal_notification_processing_waiting
    on cms_terminal_notification_processing (created_at, notification_id, next_attempt_at)
    where status in ('pending', 'retry_wait');

-- Leases, for finding those that ended.
create index if not exists cms_terminal_notification_processing_leased
    on cms_terminal_notification_processing (lease_expires_at)
    where status = 'leased';

-- For counting: whoever asks for health reads this and not the table.
create index if not exists cms_terminal_notification_processing_due
    on cms_terminal_notification_processing (status, next_attempt_at, created_at, notification_id);

-- Rows that no operation touches until they are mended. Without a foreign key, since a damaged row may be half a row.
create table if not exists cms_terminal_notification_quarantine (
    notification_id text collate "C" primary key,
    damage          text collate "C" not null,
    found_at        double precision not null
);

-- Receipt and processing beside each other, and what is wrong with the row: null, or the code that a reader of it is
-- answered with.
create or replace view cms_terminal_notifications as
select i.notification_id,
       i.event_id,
       i.site_id,
       i.terminal_status,
       i.payload_sha256,
       i.payload_json,
       i.received_at,
       p.status,
       p.attempts,
       p.max_attempts,
       p.next_attempt_at,
       p.lease_owner,
       p.lease_token,
       p.lease_expires_at,
       p.last_error_code,
       p.processed_at,
       p.created_at,
       p.updated_at,
       case when not (cms_terminal_notification_bound(i.notification_id, i.event_id, i.site_id, i.terminal_status,
                                                      i.payload_sha256, i.payload_json)
                      and i.received_at >= 0 and i.received_at < 'infinity')
            then 'stored_binding_invalid'
            when not (cms_terminal_notification_lawful(p.status, p.attempts, p.max_attempts, p.next_attempt_at,
                                                       p.lease_owner, p.lease_token, p.lease_expires_at,
                                                       p.last_error_code, p.processed_at, p.created_at, p.updated_at)
                      and p.created_at is not distinct from i.received_at)
            then 'processing_state_invalid'
       end as damage
  from cms_terminal_notification_inbox as i
  left join cms_terminal_notification_processing as p on p.notification_id = i.notification_id;

-- The host's functions are made in it. Not "if not exists", which asks for a right even where it does.
do $do$
begin
    if to_regnamespace('outboxd') is null then
        create schema outboxd;
    end if;
end
$do$;
