-- Sealed rows straight into the outbox, for hosts that make their bodies themselves.

-- Checks what no constraint of the table does. What only the key can tell, whether body and row agree, the daemon finds
-- out, and quarantines the row.
create or replace function outboxd.enqueue_sealed(
    p_task_id text,
    p_account_id text,
    p_task_type text,
    p_terminal_status text,
    p_url text,
    p_operation_id text,
    p_idempotency_key text,
    p_encrypted_body bytea,
    p_envelope_nonce bytea,
    p_signing_scope_id text default null,
    p_retry_horizon_seconds integer default null
) returns bigint
    language plpgsql volatile security definer
as $$
declare
    fault text;
    fix text;
    horizon integer := outboxd._horizon(p_retry_horizon_seconds);
    task record;
    stored record;
    row_id bigint;
begin
    perform outboxd._check_account(p_account_id);
    perform outboxd._check_reportable(p_task_id, p_task_type);
    select t.account_id, t.task_type into task from decisioning_tasks as t where t.task_id = p_task_id;
    if found and (task.account_id <> p_account_id or task.task_type <> p_task_type) then
        fault := 'account or type is not that of its task';
        fix := 'Pass the account_id and task_type that the task was issued with; a wrong account shows one buyer another''s task.';
    elsif coalesce(p_terminal_status not in ('completed', 'failed'), true) then
        fault := format('terminal status %L is neither completed nor failed', p_terminal_status);
        fix := 'A webhook is enqueued when its task has ended.';
    elsif coalesce(p_url !~* '^https://[^/?#\s]' or p_url ~ '[[:cntrl:]]' or length(p_url) > 2048, true) then
        fault := 'URL is not an absolute https URL of at most 2048 characters';
        fix := 'Pass the buyer''s push_notification_config.url as it was registered; nothing is sent in clear.';
    elsif split_part(split_part(split_part(split_part(p_url, '/', 3), '?', 1), '#', 1), E'\\', 1) ~ '@' then
        fault := 'URL carries a user or password';
        fix := 'Register credentials as authentication, not inside the URL.';
    elsif coalesce(p_operation_id, '') = '' then
        fault := 'operation id is empty';
        fix := 'Pass the buyer''s push_notification_config.operation_id.';
    elsif coalesce(length(p_idempotency_key) not between 16 and 255 or p_idempotency_key ~ '[^A-Za-z0-9_.:-]', true)
    then
        fault := 'idempotency key is not 16 to 255 of A-Z, a-z, 0-9 and _ . : -';
        fix := 'Use ''whk_'' || gen_random_uuid(), and the same in the sealed body.';
    elsif coalesce(octet_length(p_envelope_nonce) <> 12, true) then
        fault := 'nonce has not 12 bytes';
        fix := 'Pass the random nonce that the body was sealed with.';
    elsif coalesce(octet_length(p_encrypted_body) < 18, true) then
        fault := 'encrypted body is too short for a body and its tag of 16 bytes';
        fix := 'Pass ciphertext and tag, the tag last.';
    elsif octet_length(p_encrypted_body) > 15029608 then
        fault := 'encrypted body is longer than any body of 10 MiB';
        fix := 'Put large artifacts behind a URL.';
    elsif p_signing_scope_id is not null
          and (p_signing_scope_id = '' or octet_length(p_signing_scope_id) > 255
               or p_signing_scope_id ~ '[\u0001-\u001f\u007f-\u00a0\u00ad\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]') then
        fault := 'signing scope is not 1 to 255 bytes of printable text';
        fix := 'Pass null for the one fixed key, or the scope whose key signs.';
    end if;
    if fault is not null then
        raise exception using
            errcode = 'OD017',
            message = format('the row of task %s was not enqueued: its %s', p_task_id, fault),
            hint = fix;
    end if;

    insert into :"outbox"
           (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key, signing_scope_id,
            encrypted_body, envelope_nonce, retry_horizon_seconds)
    values (p_task_id, p_account_id, p_task_type, p_terminal_status, p_url, p_operation_id, p_idempotency_key,
            p_signing_scope_id, p_encrypted_body, p_envelope_nonce, horizon)
        on conflict do nothing
    returning id into row_id;
    if row_id is not null then
        perform outboxd._trace(p_task_id);
        perform outboxd._wake();
        return row_id;
    end if;
    select o.id, o.task_id = p_task_id as same_task,
           (o.task_id, o.account_id, o.task_type, o.terminal_status, o.url, o.operation_id, o.idempotency_key,
            o.signing_scope_id, o.encrypted_body, o.envelope_nonce)
           is not distinct from
           (p_task_id, p_account_id, p_task_type, p_terminal_status, p_url, p_operation_id, p_idempotency_key,
            p_signing_scope_id, p_encrypted_body, p_envelope_nonce) as same
      into stored
      from :"outbox" as o
     where o.task_id = p_task_id or o.idempotency_key = p_idempotency_key
     order by o.task_id = p_task_id desc
     limit 1;
    if stored.same then
        return stored.id;
    end if;
    raise exception using
        errcode = 'OD015',
        message = case when stored.same_task then format('the outbox holds another webhook of task %s', p_task_id)
                       else format('the idempotency key of task %s is another task''s', p_task_id) end,
        hint = 'A task is announced once, under a key of its own. To repeat a call whose outcome is unknown, pass the very '
               'same envelope.';
end
$$;
comment on function outboxd.enqueue_sealed(text, text, text, text, text, text, text, bytea, bytea, text, integer) is
    'Enqueues a webhook whose body the host sealed, and returns its row''s id; a repeat with the very same envelope returns the same id. Errors: OD010, OD011, OD015, OD017, OD018.';
