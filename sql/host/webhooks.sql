-- The host's side of the webhook inbox: take messages under a lease, and say what became of each.
--
-- complete_webhook belongs into the transaction that has the message's effect: both are committed or neither, and a
-- message whose lease was lost raises, so that the effect is rolled back with it. A message is then acted upon exactly
-- once, however often it was sent, claimed or interrupted.
-- Errors: processing_worker_invalid, processing_lease_invalid, processing_delay_invalid and processing_error_invalid
-- (SQLSTATE 22023) for arguments; processing_claim_lost and processing_lease_expired (SQLSTATE 55000) for leases.

-- Leases up to p_most messages that are due, oldest first. A lapsed lease is swept first: its message is due again,
-- or failed where that was its last attempt.
create or replace function outboxd.claim_webhooks(p_worker text, p_most integer default 1,
                                                  p_lease interval default interval '10 minutes')
    returns table (id bigint, sender text, idempotency_key text, body bytea, received_at timestamptz,
                   attempt integer, max_attempts integer, lease_token text, lease_expires_at timestamptz)
    language plpgsql volatile security definer
as $$
#variable_conflict use_column
declare
    at timestamptz := clock_timestamp();
begin
    if p_worker is null or p_worker !~ '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$' then
        raise exception 'processing_worker_invalid' using errcode = '22023';
    end if;
    if p_lease is null or p_lease <= interval '0' or p_lease > interval '1 day' then
        raise exception 'processing_lease_invalid' using errcode = '22023';
    end if;

    -- A row whose holder is completing it at this moment is locked, and left to the holder.
    update adcp_webhook_inbox as lapsed
       set state = case when lapsed.attempts >= lapsed.max_attempts then 'failed' else 'retry_wait' end,
           settled_at = case when lapsed.attempts >= lapsed.max_attempts then at end,
           available_at = at, updated_at = at, last_error_code = 'processing_lease_expired',
           lease_owner = null, lease_token = null, lease_expires_at = null
     where lapsed.id in (select held.id from adcp_webhook_inbox as held
                          where held.state = 'leased' and held.lease_expires_at <= at
                          order by held.lease_expires_at limit 1000 for update skip locked);

    return query
    with due as (
        select waiting.id from adcp_webhook_inbox as waiting
         where waiting.state in ('pending', 'retry_wait') and waiting.available_at <= at
         order by waiting.available_at, waiting.id
         limit greatest(least(p_most, 1000), 0) for update skip locked
    )
    update adcp_webhook_inbox as taken
       set state = 'leased', attempts = taken.attempts + 1, lease_owner = p_worker,
           lease_token = replace(gen_random_uuid()::text, '-', ''), lease_expires_at = clock_timestamp() + p_lease,
           last_error_code = null, updated_at = at
      from due
     where taken.id = due.id
    returning taken.id, taken.sender, taken.idempotency_key, taken.body, taken.received_at, taken.attempts,
              taken.max_attempts, taken.lease_token, taken.lease_expires_at;
end
$$;
comment on function outboxd.claim_webhooks(text, integer, interval) is
    'Leases up to so many due webhooks, oldest first, after sweeping lapsed leases. Commit it before acting on them.';

-- The message has had its effect. Call it in the effect's own transaction.
create or replace function outboxd.complete_webhook(p_id bigint, p_lease_token text) returns void
    language plpgsql volatile security definer
as $$
declare
    at timestamptz := clock_timestamp();
begin
    perform outboxd._hold_webhook(p_id, p_lease_token);
    update adcp_webhook_inbox as held
       set state = 'succeeded', settled_at = at, updated_at = at, available_at = at,
           lease_owner = null, lease_token = null, lease_expires_at = null
     where held.id = p_id;
end
$$;
comment on function outboxd.complete_webhook(bigint, text) is
    'Ends a webhook''s claim as succeeded. Call it in the transaction of the effect.';

-- The message could not have its effect now; it is due again after base x 2^(attempt - 1), at most `longest`. After its
-- last attempt it is failed. Returns the state that it has now.
create or replace function outboxd.retry_webhook(p_id bigint, p_lease_token text, p_error_code text,
                                                 p_base interval default interval '5 seconds',
                                                 p_longest interval default interval '5 minutes') returns text
    language plpgsql volatile security definer
as $$
declare
    at timestamptz := clock_timestamp();
    outcome text;
begin
    if p_base is null or p_longest is null or p_base <= interval '0' or p_longest < p_base
       or p_longest > interval '1 day' then
        raise exception 'processing_delay_invalid' using errcode = '22023';
    end if;
    perform outboxd._check_webhook_error(p_error_code);
    perform outboxd._hold_webhook(p_id, p_lease_token);
    update adcp_webhook_inbox as held
       set state = case when held.attempts >= held.max_attempts then 'failed' else 'retry_wait' end,
           settled_at = case when held.attempts >= held.max_attempts then at end,
           available_at = case when held.attempts >= held.max_attempts then at
                               else at + least(p_longest, p_base * power(2, held.attempts - 1)) end,
           last_error_code = p_error_code, updated_at = at,
           lease_owner = null, lease_token = null, lease_expires_at = null
     where held.id = p_id
    returning held.state into outcome;
    return outcome;
end
$$;
comment on function outboxd.retry_webhook(bigint, text, text, interval, interval) is
    'Ends a claim whose effect may succeed later: due again, each time twice as late, or failed with the last attempt.';

-- The message will never have its effect. It is kept as failed until its retention is over.
create or replace function outboxd.fail_webhook(p_id bigint, p_lease_token text, p_error_code text) returns void
    language plpgsql volatile security definer
as $$
declare
    at timestamptz := clock_timestamp();
begin
    perform outboxd._check_webhook_error(p_error_code);
    perform outboxd._hold_webhook(p_id, p_lease_token);
    update adcp_webhook_inbox as held
       set state = 'failed', settled_at = at, updated_at = at, available_at = at, last_error_code = p_error_code,
           lease_owner = null, lease_token = null, lease_expires_at = null
     where held.id = p_id;
end
$$;
comment on function outboxd.fail_webhook(bigint, text, text) is
    'Ends a webhook''s claim as failed for good.';

-- Hands a failed message out again, with all its attempts before it. Returns whether it was there and failed.
create or replace function outboxd.requeue_webhook(p_id bigint) returns boolean
    language plpgsql volatile security definer
as $$
declare
    at timestamptz := clock_timestamp();
begin
    update adcp_webhook_inbox as failed
       set state = 'pending', attempts = 0, settled_at = null, available_at = at, updated_at = at,
           last_error_code = null
     where failed.id = p_id and failed.state = 'failed';
    return found;
end
$$;
comment on function outboxd.requeue_webhook(bigint) is
    'Hands a failed webhook out again, with all its attempts before it.';

-- Locks the row for its holder to the end of the transaction, or raises. Whoever holds the lock needs no lease any
-- more: sweeps and claims pass over locked rows.
create or replace function outboxd._hold_webhook(p_id bigint, p_lease_token text) returns void
    language plpgsql volatile
as $$
declare
    expires timestamptz;
begin
    select held.lease_expires_at into expires
      from adcp_webhook_inbox as held
     where held.id = p_id and held.state = 'leased' and held.lease_token = p_lease_token
       for update;
    if not found then
        raise exception 'processing_claim_lost' using errcode = '55000';
    end if;
    if expires <= clock_timestamp() then
        raise exception 'processing_lease_expired' using errcode = '55000';
    end if;
end
$$;
comment on function outboxd._hold_webhook(bigint, text) is
    'Locks a leased webhook for its holder, or raises. Not for hosts.';

create or replace function outboxd._check_webhook_error(p_error_code text) returns void
    language plpgsql immutable
as $$
begin
    if p_error_code is null or p_error_code !~ '^[a-z][a-z0-9_.-]{0,127}$' then
        raise exception 'processing_error_invalid' using errcode = '22023';
    end if;
end
$$;
comment on function outboxd._check_webhook_error(text) is
    'Raises where the text is no error code. Not for hosts.';

-- The receiver's own: everything that one authenticated delivery writes, in one transaction. Each statement in it sees
-- what others committed before it, so that two deliveries that race for a key or a task end as one after the other
-- would. Without a key nothing but the nonce is kept.
--   stored       it is new, and due for the host
--   observed     another delivery told the same end of the task before
--   duplicate    it was received before, with this payload
--   conflict     its key, or its task's end, was received before with another payload
--   replayed     this very signature was accepted before
--   crowded      there is no room to remember another signature
--   unkeyed      the signature is remembered, and there is nothing else to keep
--   in_progress  another transaction that receives the same has not ended within the lock timeout
create or replace function outboxd._accept_webhook(
        keyid text, nonce text, nonce_expires double precision, count_nonces boolean, key_cap bigint, total_cap bigint,
        sender text, idempotency_key text, payload_sha256 bytea, task_sha256 bytea, artifact_sha256 bytea, body bytea,
        max_attempts integer) returns text
    language plpgsql volatile
    set lock_timeout = '2s'
as $$
#variable_conflict use_variable
declare
    bound bytea;
    told bytea;
    repeated boolean := false;
begin
    if nonce is not null then
        -- Counting takes as long as there are nonces; the receiver asks for it only near the caps.
        if count_nonces then
            if (select count(*) from (select from adcp_webhook_inbox_nonces as seen where seen.keyid = _accept_webhook.keyid
                                      limit key_cap) as counted) >= key_cap
               or (select count(*) from (select from adcp_webhook_inbox_nonces limit total_cap) as counted) >= total_cap then
                -- One that is known already is a replay all the same.
                if exists (select from adcp_webhook_inbox_nonces as seen
                            where seen.keyid = _accept_webhook.keyid and seen.nonce = _accept_webhook.nonce) then
                    return 'replayed';
                end if;
                return 'crowded';
            end if;
        end if;
        insert into adcp_webhook_inbox_nonces values (keyid, nonce, to_timestamp(nonce_expires)) on conflict do nothing;
        if not found then
            return 'replayed';
        end if;
    end if;
    if idempotency_key is null then
        return 'unkeyed';
    end if;

    for turn in 1 .. 4 loop
        select known.payload_sha256 into bound
          from adcp_webhook_inbox as known
         where known.sender = _accept_webhook.sender and known.idempotency_key = _accept_webhook.idempotency_key;
        if found then
            return case when bound = payload_sha256 then 'duplicate' else 'conflict' end;
        end if;
        if task_sha256 is not null then
            select known.artifact_sha256 into told
              from adcp_webhook_inbox as known
             where known.sender = _accept_webhook.sender and known.task_sha256 = _accept_webhook.task_sha256;
            repeated := found;
            if repeated and told <> artifact_sha256 then
                return 'conflict';
            end if;
        end if;
        insert into adcp_webhook_inbox (sender, idempotency_key, payload_sha256, task_sha256, artifact_sha256, body,
                                        state, max_attempts, settled_at)
        values (sender, idempotency_key, payload_sha256, case when not repeated then task_sha256 end,
                case when not repeated then artifact_sha256 end, body,
                case when repeated then 'duplicate' else 'pending' end, max_attempts,
                case when repeated then clock_timestamp() end)
            on conflict do nothing;
        if found then
            return case when repeated then 'observed' else 'stored' end;
        end if;
        -- Another one came first while we waited for it to commit; the next look sees what it left.
    end loop;
    return 'in_progress';
exception
    when lock_not_available then
        return 'in_progress';
end
$$;
comment on function outboxd._accept_webhook(text, text, double precision, boolean, bigint, bigint, text, text, bytea, bytea, bytea, bytea, integer) is
    'Keeps one authenticated delivery once. For outboxd receive.';
