-- Roles, rights and search paths of everything in schema outboxd. Applied last, since it finds by the catalog what the
-- other files made; it grants nothing by name but the tables.
--
-- outboxd_host runs the functions and reaches no table. outboxd_daemon delivers. outboxd_reader looks at what an operator
-- may see, which is no sealed byte. outboxd_operator requeues, cancels, expires, purges and parks. The roles have no login:
-- grant them to those that have.
-- Needs: CREATEROLE for roles that are not there; without it a notice says what to run by hand.

-- Which outbox the functions serve is written in this function's comment, where anyone may read it.
create or replace function outboxd.serves() returns text
    language sql stable security definer
as $$
    select format('%I.%I', n.nspname, c.relname)
      from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
     where c.oid = ':"outbox"'::regclass
$$;

do $do$
declare
    role_name text;
    signature regprocedure;
    name text;
    definer boolean;
    home text := format('%I', current_schema());
begin
    execute format('comment on function outboxd.serves() is %L',
                   format('The outbox that the functions of this schema serve: %I.%I', current_schema(),
                          (parse_ident(':"outbox"'))[1]));

    foreach role_name in array array['outboxd_host', 'outboxd_daemon', 'outboxd_reader', 'outboxd_operator'] loop
        if to_regrole(role_name) is null then
            begin
                execute format('create role %I nologin', role_name);
            exception
                when insufficient_privilege then
                    raise notice 'role % is missing and % may not create it: run "create role % nologin", then migrate again',
                                 role_name, current_user, role_name;
                -- Another database of this cluster is being migrated at the same time.
                when duplicate_object or unique_violation then null;
            end;
        end if;
        if to_regrole(role_name) is not null then
            execute format('grant usage on schema outboxd to %I', role_name);
        end if;
    end loop;
    if to_regrole('outboxd_daemon') is not null then
        grant select, insert, update, delete on adcp_webhook_inbox, adcp_webhook_inbox_nonces to outboxd_daemon;
    end if;

    -- Delivering needs these and nothing else; what it must not touch is who a row is from and where it goes.
    if to_regrole('outboxd_daemon') is not null then
        execute format('grant usage on schema %s to outboxd_daemon', home);
        execute 'grant select, delete on :"outbox" to outboxd_daemon';
        execute 'grant update (state, attempt_count, available_at, lease_token, lease_expires_at, updated_at, '
                'first_attempt_at, retry_until, delivered_at, last_http_status, last_error) on :"outbox" to outboxd_daemon';
        execute 'grant select on :"outbox_composed" to outboxd_daemon';
        execute 'grant select on :"outbox_traces" to outboxd_daemon';
        -- Sealing again what was sealed under an older key, which changes no word of it; and who else delivers.
        execute 'grant update (encrypted_body, envelope_nonce) on :"outbox" to outboxd_daemon';
        grant select (task_id, account_id, task_type, created_at, webhook_registration, webhook_registration_nonce),
              update (webhook_registration, webhook_registration_nonce) on decisioning_tasks to outboxd_daemon;
        execute 'grant select, insert, update, delete on :"outbox_replicas" to outboxd_daemon';
        execute 'grant select, insert, update on :"outbox_keys" to outboxd_daemon';
        execute 'grant select, insert, update, delete on :"outbox_parked" to outboxd_daemon';
        execute 'grant select, insert on :"outbox_attempts" to outboxd_daemon';
        -- Parking by hand is noted, and is the daemon's user's to do.
        execute 'grant select, insert on :"outbox_audit" to outboxd_daemon';
        execute 'grant select, insert, update, delete on :"outbox_caps" to outboxd_daemon';
        -- Signing keys are read; who writes them owns the tables. Sealing again what was sealed changes no word of it.
        execute 'grant select, update (client, client_nonce) on :"outbox_scopes" to outboxd_daemon';
        execute 'grant select, update (sealed, nonce) on :"outbox_scope_keys" to outboxd_daemon';
    end if;

    -- An operator's commands work as their own user, so that they reach whichever outbox their search_path leads to. What
    -- a row says and where it goes stays out of their reach, but for the idempotency key and what is sealed with it.
    if to_regrole('outboxd_operator') is not null then
        execute format('grant usage on schema %s to outboxd_operator', home);
        execute 'grant select, delete on :"outbox" to outboxd_operator';
        execute 'grant update (state, attempt_count, available_at, lease_token, lease_expires_at, updated_at, '
                'first_attempt_at, retry_until, delivered_at, last_error, idempotency_key, encrypted_body, envelope_nonce) '
                'on :"outbox" to outboxd_operator';
        execute 'grant select on :"outbox_composed", :"outbox_replicas" to outboxd_operator';
        execute 'grant select, insert on :"outbox_audit" to outboxd_operator';
        execute 'grant select, insert, update, delete on :"outbox_parked", :"outbox_caps" to outboxd_operator';
    end if;

    for signature, name, definer in
        select p.oid::regprocedure, p.proname, p.prosecdef from pg_proc as p
         where p.pronamespace = 'outboxd'::regnamespace and p.prokind = 'f'
         order by p.proname
    loop
        -- A definer's right must not be led to objects of the caller's making.
        if definer then
            execute format('alter function %s set search_path = %s, pg_temp', signature, home);
        end if;
        execute format('revoke all on function %s from public', signature);
        -- What the receiver keeps goes through these, and forwarding hands messages out as a host would.
        if to_regrole('outboxd_daemon') is not null
           and name ~ '^(_?[a-z]+_webhooks?(_error)?|[a-z]+_notification)$' then
            execute format('grant execute on function %s to outboxd_daemon', signature);
        end if;
        -- What the operators' commands run, and what that calls.
        if to_regrole('outboxd_operator') is not null
           and name ~ '^_((check_filter|wake|outbox)$|[a-z]+_deliveries$)' then
            execute format('grant execute on function %s to outboxd_operator', signature);
        end if;
        -- A name with an underscore in front is for the others alone; the rest is for hosts, if not said otherwise.
        continue when starts_with(name, '_');
        for role_name in
            select coalesce(said.role_name, 'outboxd_host')
              from (values ('list_deliveries', 'outboxd_reader'), ('inbox_clock', 'outboxd_daemon'),
                           ('keep_attempts', 'outboxd_daemon'),
                           ('list_deliveries', 'outboxd_operator'), ('requeue_deliveries', 'outboxd_operator'),
                           ('cancel_deliveries', 'outboxd_operator'), ('expire_deliveries', 'outboxd_operator'),
                           ('purge_deliveries', 'outboxd_operator'), ('list_changes', 'outboxd_operator'),
                           ('list_changes', 'outboxd_reader'), ('serves', 'outboxd_operator'),
                           ('serves', 'outboxd_host'), ('serves', 'outboxd_daemon'), ('serves', 'outboxd_reader'),
                           ('task_types', 'outboxd_host'), ('task_types', 'outboxd_reader'))
                       as said(function_name, role_name)
             right join (values (name)) as this(function_name) using (function_name)
        loop
            if to_regrole(role_name) is not null then
                execute format('grant execute on function %s to %I', signature, role_name);
            end if;
        end loop;
    end loop;

    -- The inbox: the daemon writes receipts and judges rows, and the functions above do the rest.
    if to_regrole('outboxd_daemon') is not null then
        grant select, insert on cms_terminal_notification_inbox, cms_terminal_notification_processing to outboxd_daemon;
        grant select, insert, update, delete on cms_terminal_notification_quarantine to outboxd_daemon;
        grant select on cms_terminal_notifications to outboxd_daemon;
    end if;
    if to_regrole('outboxd_reader') is not null then
        execute format('grant usage on schema %s to outboxd_reader', home);
        execute 'grant select on :"outbox_parked", :"outbox_attempts" to outboxd_reader';
        execute 'grant select on :"outbox_audit", :"outbox_caps" to outboxd_reader';
    end if;
    foreach role_name in array array['outboxd_host', 'outboxd_daemon', 'outboxd_reader'] loop
        if to_regrole(role_name) is not null then
            execute format('grant select on outboxd.notifications to %I', role_name);
        end if;
    end loop;
end
$do$;
