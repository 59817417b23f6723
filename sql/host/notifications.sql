-- Terminal notifications, taken and ended by the host: claimed under a lease, then completed, retried or failed, in a
-- transaction of the host's own if its effect is in this database too.
--
-- A claim is one json document, and is handed back whole: what is ended is exactly what was claimed, or it is refused.
-- Errors have SQLSTATE OI.. and the receiver contract's code as their message. The database's clock alone decides what
-- is due and when a lease ends. A damaged row is put into quarantine where it is met, and passed over.
-- A name with an underscore in front is not for hosts.

-- The one source of time of the inbox, in Unix seconds. A test's database replaces it.
create or replace function outboxd._inbox_clock() returns double precision
    language sql volatile
as $$
    select extract(epoch from clock_timestamp())::double precision
$$;
comment on function outboxd._inbox_clock() is
    'The database''s clock in Unix seconds.';

-- The clock, or an error where it cannot be one.
create or replace function outboxd.inbox_clock() returns double precision
    language plpgsql volatile security definer
as $$
declare
    now double precision := outboxd._inbox_clock();
begin
    -- Postgres puts NaN above infinity.
    if now is null or now < 0 or now >= 'infinity' then
        raise exception using errcode = 'OI010', message = 'notification_receiver.clock_invalid';
    end if;
    return now;
end
$$;
comment on function outboxd.inbox_clock() is 'The clock of the inbox in Unix seconds: the database''s.';

-- What is wrong with a row, as the view judges it: null where it is sound.
create or replace function outboxd._notification_damage(p_notification_id text) returns text
    language plpgsql stable security definer
as $$
declare
    damage text;
begin
    select n.damage into damage
      from cms_terminal_notifications as n
     where n.notification_id = p_notification_id;
    -- Work without a receipt, which the foreign key forbids.
    return case when found then damage else 'processing_state_invalid' end;
end
$$;
comment on function outboxd._notification_damage(text) is
    'What is wrong with a stored notification; null where nothing is.';

-- Where a row stands, as the operations that end a claim answer it.
create or replace function outboxd._notification_state(p_notification_id text) returns jsonb
    language sql stable security definer
as $$
    select jsonb_build_object(
               'notification_id', n.notification_id, 'event_id', n.event_id, 'site_id', n.site_id,
               'terminal_status', n.terminal_status, 'payload_sha256', n.payload_sha256,
               'status', n.status, 'attempts', n.attempts, 'max_attempts', n.max_attempts,
               'next_attempt_at', n.next_attempt_at, 'lease_expires_at', n.lease_expires_at,
               'lease_expired', coalesce(n.status = 'leased' and n.lease_expires_at <= outboxd.inbox_clock(), false),
               'last_error_code', n.last_error_code, 'processed_at', n.processed_at)
      from cms_terminal_notifications as n
     where n.notification_id = p_notification_id
$$;
comment on function outboxd._notification_state(text) is
    'Where a notification stands, as json.';

-- Ends every lease whose time has come: the row waits for another attempt at once, or has failed where none is left.
-- A row that somebody is ending at this moment is locked, and passed over.
create or replace function outboxd._sweep_leases(p_now double precision) returns void
    language plpgsql volatile security definer
as $$
begin
    with lapsed as materialized (
        select p.notification_id
          from cms_terminal_notification_processing as p
         where p.status = 'leased'
           and p.lease_expires_at <= p_now
           and not exists (select from cms_terminal_notification_quarantine as q
                            where q.notification_id = p.notification_id)
           for no key update of p skip locked
    ),
    judged as materialized (
        select l.notification_id, outboxd._notification_damage(l.notification_id) as damage
          from lapsed as l
    ),
    set_aside as (
        insert into cms_terminal_notification_quarantine (notification_id, damage, found_at)
        select j.notification_id, j.damage, p_now
          from judged as j
         where j.damage is not null
            on conflict do nothing
    )
    update cms_terminal_notification_processing as p
       set status           = case when p.attempts >= p.max_attempts then 'failed' else 'retry_wait' end,
           next_attempt_at  = greatest(p_now, p.created_at),
           updated_at       = greatest(p_now, p.created_at),
           last_error_code  = 'processing_lease_expired',
           lease_owner      = null,
           lease_token      = null,
           lease_expires_at = null
      from judged as j
     where p.notification_id = j.notification_id
       and j.damage is null;
end
$$;
comment on function outboxd._sweep_leases(double precision) is
    'Ends the leases whose time has come.';

create or replace function outboxd.claim_notification(
    p_worker text,
    p_lease_seconds double precision default 600
) returns jsonb
    language plpgsql volatile security definer
as $$
declare
    now double precision;
    candidate text;
    damage text;
    token text;
    claim jsonb;
begin
    if p_worker is null or p_worker !~ '^[A-Za-z0-9_.:-]+$' or length(p_worker) > 128 then
        raise exception using errcode = 'OI001', message = 'notification_receiver.processing_worker_invalid';
    end if;
    now := outboxd.inbox_clock();
    if p_lease_seconds is null or p_lease_seconds < 0 or p_lease_seconds >= 'infinity' then
        raise exception using errcode = 'OI010', message = 'notification_receiver.clock_invalid';
    end if;
    -- One so short that it would end when it begins would write a row that cannot be.
    if p_lease_seconds = 0 or p_lease_seconds > 86400 or now + p_lease_seconds <= now then
        raise exception using errcode = 'OI002', message = 'notification_receiver.processing_lease_invalid';
    end if;
    perform outboxd._sweep_leases(now);
    loop
        select p.notification_id into candidate
          from cms_terminal_notification_processing as p
         where p.status in ('pending', 'retry_wait')
           and p.next_attempt_at <= now
           and p.attempts < p.max_attempts
           and not exists (select from cms_terminal_notification_quarantine as q
                            where q.notification_id = p.notification_id)
         order by p.created_at, p.notification_id
         limit 1
           for no key update of p skip locked;
        if not found then
            return null;
        end if;
        damage := outboxd._notification_damage(candidate);
        exit when damage is null;
        insert into cms_terminal_notification_quarantine (notification_id, damage, found_at)
        values (candidate, damage, now)
            on conflict do nothing;
    end loop;
    -- 32 bytes of the server's strong randomness, as base64url without padding.
    token := translate(encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
                                     || uuid_send(gen_random_uuid())), 'base64'), '+/=', '-_');
    update cms_terminal_notification_processing as p
       set status           = 'leased',
           attempts         = p.attempts + 1,
           lease_owner      = p_worker,
           lease_token      = token,
           lease_expires_at = now + p_lease_seconds,
           last_error_code  = null,
           updated_at       = now
      from cms_terminal_notification_inbox as i
     where p.notification_id = candidate
       and i.notification_id = candidate
    returning jsonb_build_object(
                  'notification_id', i.notification_id, 'event_id', i.event_id, 'site_id', i.site_id,
                  'terminal_status', i.terminal_status, 'payload_sha256', i.payload_sha256,
                  'payload', i.payload_json, 'attempt', p.attempts, 'max_attempts', p.max_attempts,
                  'worker_id', p.lease_owner, 'lease_token', p.lease_token, 'lease_expires_at', p.lease_expires_at)
         into strict claim;
    return claim;
end
$$;
comment on function outboxd.claim_notification(text, double precision) is
    'Leases the oldest due notification to a worker; null where none is due. Commit it before acting on it.';

-- Locks the claimed row and sees to it that it is still this claim's. The lock is taken first and the time read after,
-- so that nobody else ends or sweeps the lease between the look and the write.
create or replace function outboxd._hold_claim(
    p_claim jsonb,
    out now double precision, out written_at double precision, out attempts integer, out max_attempts integer
)
    language plpgsql volatile security definer
as $$
declare
    held cms_terminal_notification_processing;
    receipt cms_terminal_notification_inbox;
    damage text;
begin
    select * into held
      from cms_terminal_notification_processing as p
     where p.notification_id = p_claim ->> 'notification_id'
       for no key update;
    now := outboxd.inbox_clock();
    if held.notification_id is null then
        raise exception using errcode = 'OI005', message = 'notification_receiver.processing_claim_lost';
    end if;
    damage := outboxd._notification_damage(held.notification_id);
    if damage is not null then
        raise exception using errcode = 'OI009', message = 'notification_receiver.processing_state_invalid';
    end if;
    select * into strict receipt
      from cms_terminal_notification_inbox as i
     where i.notification_id = held.notification_id;
    if held.status <> 'leased'
       or (held.lease_owner, held.lease_token, held.attempts, held.max_attempts, held.lease_expires_at)
          is distinct from (p_claim ->> 'worker_id', p_claim ->> 'lease_token', (p_claim ->> 'attempt')::numeric,
                            (p_claim ->> 'max_attempts')::numeric, (p_claim ->> 'lease_expires_at')::double precision)
       or (receipt.event_id, receipt.site_id, receipt.terminal_status, receipt.payload_sha256, receipt.payload_json)
          is distinct from (p_claim ->> 'event_id', p_claim ->> 'site_id', p_claim ->> 'terminal_status',
                            p_claim ->> 'payload_sha256', p_claim ->> 'payload') then
        raise exception using errcode = 'OI005', message = 'notification_receiver.processing_claim_lost';
    end if;
    if held.lease_expires_at <= now then
        raise exception using errcode = 'OI006', message = 'notification_receiver.processing_lease_expired';
    end if;
    -- A clock that was set back must not put a row before its receipt.
    written_at := greatest(now, held.created_at);
    attempts := held.attempts;
    max_attempts := held.max_attempts;
end
$$;
comment on function outboxd._hold_claim(jsonb) is
    'Locks a claimed row, if it is still this claim''s.';

-- Whether this is a document that claim_notification could have made.
create or replace function outboxd._check_claim(p_claim jsonb) returns void
    language plpgsql immutable
as $$
begin
    if p_claim is null
       or jsonb_typeof(p_claim) <> 'object'
       or exists (select
                    from (values ('notification_id', 'string'), ('event_id', 'string'), ('site_id', 'string'),
                                 ('terminal_status', 'string'), ('payload_sha256', 'string'), ('payload', 'string'),
                                 ('attempt', 'number'), ('max_attempts', 'number'), ('worker_id', 'string'),
                                 ('lease_token', 'string'), ('lease_expires_at', 'number')) as field(name, type)
                   where jsonb_typeof(p_claim -> field.name) is distinct from field.type)
       or abs((p_claim ->> 'lease_expires_at')::numeric) > 1e15 then
        raise exception using errcode = 'OI004', message = 'notification_receiver.processing_claim_invalid';
    end if;
end
$$;
comment on function outboxd._check_claim(jsonb) is
    'Refuses what no claim can be.';

create or replace function outboxd.complete_notification(p_claim jsonb, p_answer jsonb) returns jsonb
    language plpgsql volatile security definer
as $$
declare
    held record;
begin
    perform outboxd._check_claim(p_claim);
    if p_answer is distinct from jsonb_build_object(
           'schema', 'blun.cms-terminal-notification-processing-ack.v1',
           'notification_id', p_claim -> 'notification_id', 'event_id', p_claim -> 'event_id',
           'site_id', p_claim -> 'site_id', 'status', 'processed', 'notification_sha256', p_claim -> 'payload_sha256') then
        raise exception using errcode = 'OI007', message = 'notification_receiver.processing_response_invalid';
    end if;
    select * into held from outboxd._hold_claim(p_claim);
    update cms_terminal_notification_processing as p
       set status           = 'succeeded',
           next_attempt_at  = held.written_at,
           processed_at     = held.written_at,
           updated_at       = held.written_at,
           last_error_code  = null,
           lease_owner      = null,
           lease_token      = null,
           lease_expires_at = null
     where p.notification_id = p_claim ->> 'notification_id'
       and p.status = 'leased'
       and p.lease_owner = p_claim ->> 'worker_id'
       and p.lease_token = p_claim ->> 'lease_token';
    if not found then
        raise exception using errcode = 'OI013', message = 'notification_receiver.processing_completion_lost';
    end if;
    return outboxd._notification_state(p_claim ->> 'notification_id');
end
$$;
comment on function outboxd.complete_notification(jsonb, jsonb) is
    'Ends a claim as succeeded, if the answer is the processing acknowledgement of exactly this notification.';

-- Ends a claim without success: waiting where a time is given, failed where none is.
create or replace function outboxd._end_claim(p_claim jsonb, p_error_code text, p_held record, p_wait_seconds double precision)
    returns jsonb
    language plpgsql volatile security definer
as $$
begin
    update cms_terminal_notification_processing as p
       set status           = case when p_wait_seconds is null then 'failed' else 'retry_wait' end,
           next_attempt_at  = p_held.written_at + coalesce(p_wait_seconds, 0),
           processed_at     = null,
           updated_at       = p_held.written_at,
           last_error_code  = p_error_code,
           lease_owner      = null,
           lease_token      = null,
           lease_expires_at = null
     where p.notification_id = p_claim ->> 'notification_id'
       and p.status = 'leased'
       and p.lease_owner = p_claim ->> 'worker_id'
       and p.lease_token = p_claim ->> 'lease_token';
    if not found then
        raise exception using errcode = 'OI014', message = 'notification_receiver.processing_failure_lost';
    end if;
    return outboxd._notification_state(p_claim ->> 'notification_id');
end
$$;
comment on function outboxd._end_claim(jsonb, text, record, double precision) is
    'Ends a claim without success.';

create or replace function outboxd._check_error_code(p_error_code text) returns void
    language plpgsql immutable
as $$
begin
    if p_error_code is null or p_error_code !~ '^[a-z][a-z0-9_.-]*$' or length(p_error_code) > 128 then
        raise exception using errcode = 'OI008', message = 'notification_receiver.processing_error_invalid';
    end if;
end
$$;
comment on function outboxd._check_error_code(text) is
    'Refuses what no error code can be.';

create or replace function outboxd.retry_notification(
    p_claim jsonb,
    p_error_code text,
    p_base_delay_seconds double precision default 5,
    p_max_delay_seconds double precision default 300
) returns jsonb
    language plpgsql volatile security definer
as $$
declare
    held record;
    delay double precision;
begin
    foreach delay in array array[p_base_delay_seconds, p_max_delay_seconds] loop
        if delay is null or delay < 0 or delay >= 'infinity' then
            raise exception using errcode = 'OI010', message = 'notification_receiver.clock_invalid';
        end if;
    end loop;
    if p_base_delay_seconds = 0 or p_base_delay_seconds > p_max_delay_seconds or p_max_delay_seconds > 86400 then
        raise exception using errcode = 'OI003', message = 'notification_receiver.processing_delay_invalid';
    end if;
    perform outboxd._check_claim(p_claim);
    perform outboxd._check_error_code(p_error_code);
    select * into held from outboxd._hold_claim(p_claim);
    if held.attempts < held.max_attempts then
        delay := least(p_max_delay_seconds, p_base_delay_seconds * 2 ^ (held.attempts - 1));
    else
        delay := null;
    end if;
    return outboxd._end_claim(p_claim, p_error_code, held, delay);
end
$$;
comment on function outboxd.retry_notification(jsonb, text, double precision, double precision) is
    'Ends a claim whose effect may succeed later: it waits, each time twice as long, or has failed with its last attempt.';

create or replace function outboxd.fail_notification(p_claim jsonb, p_error_code text) returns jsonb
    language plpgsql volatile security definer
as $$
declare
    held record;
begin
    perform outboxd._check_claim(p_claim);
    perform outboxd._check_error_code(p_error_code);
    select * into held from outboxd._hold_claim(p_claim);
    return outboxd._end_claim(p_claim, p_error_code, held, null);
end
$$;
comment on function outboxd.fail_notification(jsonb, text) is
    'Ends a claim as failed for good.';

-- The inbox for hosts and operators, without the payloads.
create or replace view outboxd.notifications as
select n.notification_id,
       n.event_id,
       n.site_id,
       n.terminal_status,
       n.payload_sha256,
       to_timestamp(n.received_at) as received_at,
       n.status,
       n.attempts,
       n.max_attempts,
       to_timestamp(n.next_attempt_at) as next_attempt_at,
       n.lease_owner,
       to_timestamp(n.lease_expires_at) as lease_expires_at,
       n.last_error_code,
       to_timestamp(n.processed_at) as processed_at,
       to_timestamp(n.updated_at) as updated_at,
       q.damage as quarantined_for
  from cms_terminal_notifications as n
  left join cms_terminal_notification_quarantine as q on q.notification_id = n.notification_id;
comment on view outboxd.notifications is
    'Terminal notifications and how far their processing is; quarantined_for names the damage of a row that is passed over.';
