-- The inbox of terminal notifications: what was received, byte for byte, and how far its processing is.
--
-- The tables have the names, columns and meaning of the source CMS's SQLite ledger, version 2; times are Unix seconds
-- as there, so that an imported row is the same row. What that ledger checks in code on every call, on every row, is
-- held by constraints here; what slips past them (a restore, a superuser) is found by column damage of the view, one
-- row at a time, and named in the quarantine.
-- Needs: CREATE on the schema; CREATE on the database where schema outboxd is missing.

-- Whether a receipt is what its payload says: the canonical form with its twelve fields, the derived id, the digest. No
-- value of a lawful payload holds a quote, so that its quotes divide it, and it is lawful if and only if putting the
-- values together anew gives it back. One regular expression for it all is thirty times slower: Postgres builds its
-- automaton afresh for every row. The detour over "escape" makes bytes of any text, and is immutable, which convert_to
-- is not.
create or replace function cms_terminal_notification_bound(
    notification_id text, event_id text, site_id text, terminal_status text, payload_sha256 text, payload_json text
) returns boolean
    language plpgsql immutable
as $$
declare
    part text[] := string_to_array(payload_json, '"');
    -- Where there is no lifecycle, what follows it comes two quotes earlier.
    ended boolean := terminal_status not in ('cancelled', 'superseded');
    shift integer := case when ended then 2 else 0 end;
    job_count text;
    source_sequence text;
    before text;
    after text;
begin
    job_count := substr(part[11], 2, length(part[11]) - 2);
    source_sequence := substr(part[35 + shift], 2, length(part[35 + shift]) - 2);
    before := '{"change_sha256":"' || part[4] || '","event_id":"' || event_id || '","job_count":' || job_count
           || ',"lifecycle_binding_sha256":"' || part[14] || '","lifecycle_sha256":'
           || case when ended then '"' || part[18] || '",' else 'null,' end;
    after := '"plan_id":"' || part[24 + shift] || '","schema":"blun.cms-source-terminal-notification.v1","site_id":"'
          || site_id || '","source_sequence":' || source_sequence || ',"terminal_status":"' || terminal_status
          || '","website_version":"' || part[42 + shift] || '"}';
    return coalesce(
        payload_json = before || '"notification_id":"' || notification_id || '",' || after
        and octet_length(payload_json) <= 16384
        and terminal_status in ('cancelled', 'deleted', 'deletion_failed', 'localization_failed', 'publication_blocked',
                                'publication_failed', 'published', 'superseded')
        and part[4] || part[14] || case when ended then part[18] else '' end !~ '[^0-9a-f]'
        and length(part[4]) = 64
        and length(part[14]) = 64
        and (not ended or length(part[18]) = 64)
        and event_id || site_id || part[24 + shift] || part[42 + shift] !~ '[^A-Za-z0-9_.:-]'
        and length(event_id) between 1 and 256
        and length(site_id) between 1 and 256
        and length(part[24 + shift]) between 1 and 256
        and length(part[42 + shift]) between 1 and 256
        and job_count || source_sequence !~ '[^0-9]'
        and left(job_count, 1) <> '0'
        and left(source_sequence, 1) <> '0'
        and length(job_count) between 1 and 4300
        and length(source_sequence) between 1 and 4300
        and notification_id = 'terminal-' || encode(sha256(decode(before || after, 'escape')), 'hex')
        and payload_sha256 = encode(sha256(decode(payload_json, 'escape')), 'hex'),
        false);
exception
    -- What makes no bytes holds a backslash.
    when invalid_text_representation or substring_error then
        return false;
end
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
create index if not exists cms_terminal_notification_processing_due
    on cms_terminal_notification_processing (created_at, notification_id, next_attempt_at)
    where status in ('pending', 'retry_wait');

-- Leases, for finding those that ended.
create index if not exists cms_terminal_notification_processing_leased
    on cms_terminal_notification_processing (lease_expires_at)
    where status = 'leased';

-- For counting: with its few values, a million rows are seven megabytes.
create index if not exists cms_terminal_notification_processing_status
    on cms_terminal_notification_processing (status);

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
