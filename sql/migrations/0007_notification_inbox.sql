-- The inbox of terminal notifications: what was received, byte for byte, and how far its processing is.
--
-- The tables have the names, columns and meaning of the source CMS's SQLite ledger, version 2; times are Unix seconds
-- as there, so that an imported row is the same row. What that ledger checks in code on every call, on every row, is
-- held by constraints here; what slips past them (a restore, a superuser) is found by column damage of the view, one
-- row at a time, and named in the quarantine.
-- Needs: CREATE on the schema; CREATE on the database where schema outboxd is missing.

-- Whether a receipt is what its payload says: the canonical form's shape, the fields, the derived id, the digest. The
-- payload is cut at its quotes, which no lawful value holds; the values are judged, and put into the canonical form they
-- must make the payload. Every intake pays for this: one regular expression for the whole payload takes ten times as long,
-- an expression in SQL would be planned anew for every statement, and each operator costs more to set up than to run.
-- The detour over "escape" makes bytes of any text, and is immutable, which convert_to is not.
create or replace function cms_terminal_notification_bound(
    notification_id text, event_id text, site_id text, terminal_status text, payload_sha256 text, payload_json text
) returns boolean
    language plpgsql immutable
as $$
declare
    cut text[] := string_to_array(payload_json, '"');
    -- A digest of the lifecycle has two quotes, and null none.
    more integer := case when cut[17] = ':' then 2 else 0 end;
begin
    return coalesce(
        octet_length(payload_json) <= 16384
        and (more = 0) = (terminal_status in ('cancelled', 'superseded'))
        and terminal_status in ('cancelled', 'deleted', 'deletion_failed', 'localization_failed', 'publication_blocked',
                                'publication_failed', 'published', 'superseded')
        and length(cut[4]) = 64
        and length(cut[14]) = 64
        and (more = 0 or length(cut[18]) = 64)
        and greatest(length(event_id), length(site_id), length(cut[24 + more]), length(cut[42 + more])) <= 256
        and greatest(length(cut[11]), length(cut[35 + more])) <= 4302
        -- No value has a blank, so that each is matched by its own part.
        and concat(cut[4], cut[14], case when more > 0 then cut[18] end, ' ', event_id, ' ', site_id, ' ', cut[24 + more],
                   ' ', cut[42 + more], ' ', cut[11], ' ', cut[35 + more])
            ~ '^[0-9a-f]+( [A-Za-z0-9_.:-]+){4}( :[1-9][0-9]*,){2}$'
        and payload_json = format(
            '{"change_sha256":"%s","event_id":"%s","job_count"%s"lifecycle_binding_sha256":"%s","lifecycle_sha256":%s,'
            '"notification_id":"%s","plan_id":"%s","schema":"blun.cms-source-terminal-notification.v1","site_id":"%s",'
            '"source_sequence"%s"terminal_status":"%s","website_version":"%s"}',
            cut[4], event_id, cut[11], cut[14], case when more > 0 then '"' || cut[18] || '"' else 'null' end,
            notification_id, cut[24 + more], site_id, cut[35 + more], terminal_status, cut[42 + more])
        and payload_sha256 = encode(sha256(decode(replace(payload_json, '\', '\\'), 'escape')), 'hex')
        and notification_id = 'terminal-' || encode(sha256(decode(
            replace(payload_json, '"notification_id":"' || notification_id || '",', ''), 'escape')), 'hex'),
        false);
end
$$;

-- Whether a row's processing state is one that the operations can produce.
create or replace function cms_terminal_notification_lawful(
    status text, attempts integer, max_attempts integer, next_attempt_at double precision,
    lease_owner text, lease_token text, lease_expires_at double precision,
    last_error_code text, processed_at double precision, created_at double precision, updated_at double precision
) returns boolean
    language plpgsql immutable
as $$
begin
    return coalesce(
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
        false);
end
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
