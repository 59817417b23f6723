-- Tasks: issued, brought forward and ended by the host, in its own transaction and with no key in its hands.
--
-- What ends a task writes its webhook in the same statement: state, outbox row and the clearing of the registration
-- commit together or not at all. The result is sent in the very spelling in which it came, so it is taken as json, which
-- keeps its text; what a receiver would refuse is refused here, before anything is written.
-- A name with an underscore in front is not for hosts. What every call runs is PL/pgSQL, which keeps its plans with the
-- session; a SQL function that is not inlined would be planned anew by each statement.

-- The operations that a webhook may report on, each with the protocol that its body names.
create or replace function outboxd._task_types() returns table (task_type text, protocol text)
    language sql immutable
as $$
    values ('create_media_buy', 'media-buy'), ('update_media_buy', 'media-buy'), ('buy_products', null),
           ('accept_proposal', null), ('control_media_buy', null), ('media_buy_delivery', null),
           ('sync_creatives', 'creative'), ('build_creative', null), ('preview_creative', null),
           ('get_creative_features', null), ('activate_signal', 'signals'), ('get_products', 'media-buy'),
           ('request_proposals', null), ('refine_proposals', null), ('decline_proposals', null),
           ('get_signals', 'signals'), ('create_property_list', 'governance'), ('update_property_list', 'governance'),
           ('get_property_list', 'governance'), ('list_property_lists', 'governance'),
           ('delete_property_list', 'governance'), ('sync_accounts', 'media-buy'),
           ('get_account_financials', 'media-buy'), ('get_creative_delivery', 'creative'),
           ('sync_event_sources', 'media-buy'), ('sync_audiences', 'media-buy'), ('sync_catalogs', 'media-buy'),
           ('log_event', 'media-buy'), ('get_brand_identity', 'brand'), ('search_brands', null),
           ('get_rights', 'brand'), ('acquire_rights', 'brand'), ('update_rights', null),
           ('sync_agent_notification_configs', null), ('sync_principal', null), ('get_principal', null),
           ('sync_reporting_status', 'media-buy'), ('sync_reporting_receipts', 'media-buy')
$$;
comment on function outboxd._task_types() is 'The task types that webhooks report on.';

-- Unix seconds, as the table keeps its times.
create or replace function outboxd._now() returns double precision
    language sql volatile
as $$
    select extract(epoch from clock_timestamp())::double precision
$$;
comment on function outboxd._now() is 'The clock in Unix seconds.';

-- Tells observers of a change when, and only if, it commits. Off unless the setting outboxd.lifecycle_channel names a
-- channel (alter database .. set outboxd.lifecycle_channel = 'tasks'). Best effort: what does not fit into a
-- notification is told by its task id alone.
create or replace function outboxd._tell_observers(
    p_event text, p_task_id text, p_account_id text, p_task_type text,
    p_created_at double precision, p_updated_at double precision
) returns void
    language plpgsql volatile
as $$
declare
    channel text := current_setting('outboxd.lifecycle_channel', true);
    payload text;
begin
    if coalesce(channel, '') = '' then
        return;
    end if;
    payload := json_build_object('event', p_event, 'task_id', p_task_id, 'account_id', p_account_id,
                                 'task_type', p_task_type, 'created_at', p_created_at, 'updated_at', p_updated_at);
    if octet_length(payload) >= 8000 then
        payload := json_build_object('event', p_event, 'task_id', left(p_task_id, 500));
    end if;
    perform pg_notify(channel, payload);
end
$$;
comment on function outboxd._tell_observers(text, text, text, text, double precision, double precision)
    is 'Notifies the lifecycle channel of one change.';

-- Wakes the daemons when the caller commits. Notifying commits one at a time, under one lock for the whole database; so
-- only a few transactions at once do, and the others rely on their wake-ups and on the daemons' polling. The setting
-- outboxd.wake = 'off' switches it off.
create or replace function outboxd._wake() returns void
    language plpgsql volatile
as $$
begin
    if coalesce(current_setting('outboxd.wake', true), '') <> 'off'
       and pg_try_advisory_xact_lock(hashtextextended('outboxd.wake', pg_backend_pid() % 2)) then
        perform pg_notify('outboxd_wake', '');
    end if;
end
$$;
comment on function outboxd._wake() is 'Notifies channel outboxd_wake of new rows.';

-- The host's own trace, if its session says one: set local outboxd.traceparent (and outboxd.tracestate). It is the daemon that
-- judges it; what would not even be text of the right length is not kept, and nothing here undoes the host's transaction.
create or replace function outboxd._trace(p_task_id text) returns void
    language plpgsql volatile
as $$
declare
    parent text := coalesce(current_setting('outboxd.traceparent', true), '');
begin
    if length(parent) = 55 then
        insert into :"outbox_traces" (task_id, traceparent, tracestate)
        values (p_task_id, parent, nullif(left(current_setting('outboxd.tracestate', true), 513), ''))
            on conflict do nothing;
    end if;
end
$$;
comment on function outboxd._trace(text) is 'Keeps the session''s trace context for a row that was enqueued.';

create or replace function outboxd._check_account(p_account_id text) returns void
    language plpgsql immutable
as $$
begin
    if p_account_id is null or p_account_id !~ '\S' or p_account_id = '<unset>' then
        raise exception using
            errcode = 'OD010',
            message = format('account_id %L is not an account', p_account_id),
            hint = 'Pass the id of the account that owns the task; accounts without one would share their tasks.';
    end if;
end
$$;
comment on function outboxd._check_account(text) is 'Refuses blank accounts (OD010).';

-- What the body's members demand of a task that owes a webhook.
create or replace function outboxd._check_reportable(p_task_id text, p_task_type text) returns void
    language plpgsql immutable
as $$
begin
    -- The same list as in task_types; looked up there it would cost more than the rest of the call.
    if p_task_type is null or p_task_type not in (
       'create_media_buy', 'update_media_buy', 'buy_products', 'accept_proposal', 'control_media_buy',
       'media_buy_delivery', 'sync_creatives', 'build_creative', 'preview_creative', 'get_creative_features',
       'activate_signal', 'get_products', 'request_proposals', 'refine_proposals', 'decline_proposals',
       'get_signals', 'create_property_list', 'update_property_list', 'get_property_list', 'list_property_lists',
       'delete_property_list', 'sync_accounts', 'get_account_financials', 'get_creative_delivery',
       'sync_event_sources', 'sync_audiences', 'sync_catalogs', 'log_event', 'get_brand_identity', 'search_brands',
       'get_rights', 'acquire_rights', 'update_rights', 'sync_agent_notification_configs', 'sync_principal',
       'get_principal', 'sync_reporting_status', 'sync_reporting_receipts'
    ) then
        raise exception using
            errcode = 'OD011',
            message = format('task %s has type %L, which no webhook reports on', p_task_id, p_task_type),
            hint = 'Use one of the task types in select * from outboxd.task_types(), or issue it without registration.';
    end if;
    if p_task_type <> 'media_buy_delivery'
       and coalesce(length(p_task_id) not between 1 and 246 or p_task_id ~ '[^A-Za-z0-9_.:-]', true) then
        raise exception using
            errcode = 'OD011',
            message = format('task id %L cannot be announced', p_task_id),
            hint = 'Use 1 to 246 of A-Z, a-z, 0-9 and _ . : - (or outboxd.new_task_id()).';
    end if;
end
$$;
comment on function outboxd._check_reportable(text, text) is 'Refuses ids and types that no webhook can carry (OD011).';

create or replace function outboxd._horizon(p_seconds integer) returns integer
    language plpgsql stable
as $$
declare
    setting text := coalesce(current_setting('outboxd.retry_horizon_seconds', true), '');
    seconds integer := coalesce(p_seconds, case when setting ~ '^\d{1,9}$' then setting::integer end,
                                case when setting = '' then 86400 end);
begin
    if seconds is null or seconds not between 86400 and 604800 then
        raise exception using
            errcode = 'OD018',
            message = format('a retry horizon of %s is not from 86400 to 604800 seconds', coalesce(p_seconds::text, setting)),
            hint = 'Pass the delivery_retry_horizon_seconds that your capabilities advertise, or set '
                   'outboxd.retry_horizon_seconds to it.';
    end if;
    return seconds;
end
$$;
comment on function outboxd._horizon(integer) is 'The retry horizon: as given, as set, or a day (OD018).';

-- Members of an object in a text, counted: colons outside strings.
create or replace function outboxd._count_members(p_json text) returns bigint
    language plpgsql immutable
as $$
declare
    bare text := regexp_replace(p_json, '"(?:[^"\\]|\\.)*"', '', 'g');
begin
    return length(bare) - length(replace(bare, ':', ''));
end
$$;
comment on function outboxd._count_members(text) is 'How many members a JSON text has, at all depths.';

-- The document as jsonb, once it is known that every strict receiver takes it as it is spelt.
--
-- A key twice: jsonb keeps one of them, so it then has fewer members than the text. Too deep: the document stands one
-- level deep in the body, which may have a hundred. The reserve leaves room for the body's other members, of which the
-- token is the longest.
create or replace function outboxd._checked(p_what text, p_task_id text, p_document json) returns jsonb
    language plpgsql immutable
as $$
declare
    spelt text := p_document::text;
    parsed jsonb;
    fault text;
begin
    if p_document is null or json_typeof(p_document) <> 'object' then
        fault := 'is not a JSON object';
    elsif octet_length(spelt) > 10485760 - 65536 then
        raise exception using
            errcode = 'OD014',
            message = format('the %s of task %s has %s bytes, more than a webhook may carry', p_what, p_task_id,
                             octet_length(spelt)),
            hint = 'Send at most 10420224 bytes; put large artifacts behind a URL.';
    elsif spelt ~ '\\u|[eE]\+?\d{3}' or (length(spelt) > 300 and spelt ~ '\d{200}') then
        begin
            parsed := spelt::jsonb;
            if spelt ~ '\d{200}|[eE]\+?\d{3}' and jsonb_path_exists(parsed,
                   'strict $.** ? (@.type() == "number" && (@ > 1.7976931348623157e308 || @ < -1.7976931348623157e308))')
            then
                fault := 'has a number beyond a double''s range';
            end if;
        exception
            when untranslatable_character then fault := 'has a string with U+0000';
            when invalid_text_representation then fault := 'has a string with half a surrogate pair';
            when numeric_value_out_of_range then fault := 'has a number beyond a double''s range';
        end;
    else
        parsed := spelt::jsonb;
    end if;
    if fault is null and outboxd._count_members(spelt) <> outboxd._count_members(parsed::text) then
        fault := 'has a key twice in one object';
    end if;
    if fault is null and length(spelt) - length(translate(spelt, '{[', '')) > 99 and jsonb_path_exists(parsed,
           'strict $.**{99} ? (@.type() == "object" || @.type() == "array")') then
        fault := 'is nested more than 99 levels deep';
    end if;
    if fault is not null then
        raise exception using
            errcode = 'OD013',
            message = format('the %s of task %s %s', p_what, p_task_id, fault),
            hint = 'Receivers refuse such a body; send a JSON object as RFC 8259 and I-JSON have it.';
    end if;
    return parsed;
end
$$;
comment on function outboxd._checked(text, text, json) is 'The document as jsonb, or OD013 or OD014.';

-- Whether anything in it could be a credential. Every rule below removes something under one of these keys.
create or replace function outboxd._is_suspect(p_document jsonb) returns boolean
    language sql immutable
as $$
    select p_document::text ~ '"(authentication|bank|authorization|details)": '
$$;
comment on function outboxd._is_suspect(jsonb) is 'Whether the document has a member that stripping looks at.';

-- The object without some of its members. Verbatim if it has none of them; else the others' values are verbatim, in
-- their order, between keys that are spelt anew.
create or replace function outboxd._without(p_object json, p_names text[]) returns json
    language sql immutable
as $$
    select case when not bool_or(m.key = any (p_names)) then p_object
                else coalesce('{' || string_agg(to_json(m.key)::text || ':' || m.value::text, ',' order by m.nth)
                                         filter (where m.key <> all (p_names)) || '}', '{}')::json
           end
      from json_each(p_object) with ordinality as m(key, value, nth)
$$;
comment on function outboxd._without(json, text[]) is 'The object without the named members.';

-- Of the object only some members, and of those none that is null. Null if nothing is left, or if it is no object.
create or replace function outboxd._only(p_object json, p_names text[]) returns json
    language plpgsql immutable
as $$
declare
    dropped text[];
    kept bigint;
begin
    if p_object is null or json_typeof(p_object) <> 'object' then
        return null;
    end if;
    select array_agg(m.key) filter (where m.key <> all (p_names) or json_typeof(m.value) = 'null'),
           count(*) filter (where m.key = any (p_names) and json_typeof(m.value) <> 'null')
      into dropped, kept
      from json_each(p_object) as m(key, value);
    return case when kept > 0 then outboxd._without(p_object, coalesce(dropped, '{}')) end;
end
$$;
comment on function outboxd._only(json, text[]) is 'Of the object only the named members that are not null.';

-- The object with other values for some of its members, in their places; a null takes the member out.
create or replace function outboxd._with(p_object json, p_names text[], p_values json[]) returns json
    language sql immutable
as $$
    select coalesce('{' || string_agg(to_json(m.key)::text || ':' || coalesce(new.value, m.value)::text, ','
                                      order by m.nth) filter (where new.name is null or new.value is not null) || '}',
                    '{}')::json
      from json_each(p_object) with ordinality as m(key, value, nth)
      left join unnest(p_names, p_values) as new(name, value) on new.name = m.key
$$;
comment on function outboxd._with(json, text[], json[]) is 'The object with some members replaced.';

create or replace function outboxd._strip_connection(p_connection json) returns json
    language plpgsql immutable
as $$
declare
    kept json := outboxd._only(p_connection, array['provider', 'connection_type', 'required_for', 'scope', 'status',
                                                   'connection_id', 'resource_ref', 'authorization_url',
                                                   'authorization_instructions', 'expires_at']);
begin
    if kept::jsonb ? 'resource_ref' then
        kept := outboxd._with(kept, array['resource_ref'],
                              array[outboxd._only(kept -> 'resource_ref',
                                                  array['platform_account_id', 'identity_id', 'handle', 'profile_url',
                                                        'post_id', 'post_url'])]);
    end if;
    return case when kept::jsonb <> '{}' then kept end;
end
$$;
comment on function outboxd._strip_connection(json) is 'What of a missing connection may be shown.';

create or replace function outboxd._strip_connections(p_connections json) returns json
    language sql immutable
as $$
    select ('[' || string_agg(c.stripped::text, ',' order by c.nth) || ']')::json
      from (select outboxd._strip_connection(e.value) as stripped, e.nth
              from json_array_elements(case when json_typeof(p_connections) = 'array' then p_connections else '[]' end)
                   with ordinality as e(value, nth)) as c
     where c.stripped is not null
$$;
comment on function outboxd._strip_connections(json) is 'What of missing connections may be shown.';

-- An error's details are public for a known code only, and for missing authorization only in part.
create or replace function outboxd._strip_error(p_error json) returns json
    language plpgsql immutable
as $$
declare
    details json := p_error -> 'details';
    shown json;
    name text;
begin
    if details is null then
        return p_error;
    end if;
    if json_typeof(p_error -> 'code') is distinct from 'string'
       or json_typeof(details) <> 'object' or details::jsonb = '{}' then
        return outboxd._without(p_error, array['details']);
    end if;
    if p_error ->> 'code' <> 'AUTHORIZATION_REQUIRED' then
        return p_error;
    end if;
    shown := outboxd._only(details, array['required_connections', 'missing_connections', 'authorization_url',
                                          'authorization_instructions']);
    foreach name in array array['required_connections', 'missing_connections'] loop
        if shown::jsonb ? name then
            shown := outboxd._with(shown, array[name], array[outboxd._strip_connections(shown -> name)]);
        end if;
    end loop;
    return outboxd._with(p_error, array['details'], array[case when shown::jsonb <> '{}' then shown end]);
end
$$;
comment on function outboxd._strip_error(json) is 'An error without what its details must not show.';

-- The value without write-only credentials, at any depth. What holds none stays verbatim: only the objects on the way
-- to a removed member are put together anew, from keys that are spelt anew and values that are not, in their order.
create or replace function outboxd._strip(p_value json) returns json
    language plpgsql immutable
as $$
declare
    names text[] := '{}';
    stripped json[] := '{}';
    member record;
    given json;
    part json;
begin
    if json_typeof(p_value) not in ('object', 'array') or not outboxd._is_suspect(p_value::jsonb) then
        return p_value;
    end if;
    if json_typeof(p_value) = 'array' then
        return outboxd._strip_each(p_value, null);
    end if;
    for member in select m.key, m.value from json_each(p_value) as m(key, value) loop
        given := member.value;
        if member.key = 'authorization' then
            part := outboxd._only(given, array['allowed_tasks', 'field_scopes', 'scope_name', 'read_only']);
        elsif member.key in ('governance_agents', 'notification_configs', 'errors') and json_typeof(given) = 'array' then
            part := outboxd._strip_each(given, member.key);
        elsif member.key in ('billing_entity', 'invoice_recipient', 'adcp_error') then
            part := outboxd._strip_as(given, member.key);
        else
            part := outboxd._strip(given);
        end if;
        if part is null or part::text <> given::text then
            names := names || member.key;
            stripped := stripped || part;
        end if;
    end loop;
    return case when names = '{}' then p_value else outboxd._with(p_value, names, stripped) end;
end
$$;
comment on function outboxd._strip(json) is 'The value without write-only credentials.';

-- One value, and then what its place in its parent demands.
create or replace function outboxd._strip_as(p_value json, p_place text) returns json
    language plpgsql immutable
as $$
declare
    value json := outboxd._strip(p_value);
begin
    if p_place is null or json_typeof(value) <> 'object' then
        return value;
    end if;
    case p_place
        when 'governance_agents' then
            return outboxd._without(value, array['authentication']);
        when 'notification_configs' then
            if json_typeof(value -> 'authentication') = 'object' then
                return outboxd._with(value, array['authentication'],
                                     array[outboxd._without(value -> 'authentication', array['credentials'])]);
            end if;
            return value;
        when 'errors', 'adcp_error' then
            return outboxd._strip_error(value);
        else
            return outboxd._without(value, array['bank']);
    end case;
end
$$;
comment on function outboxd._strip_as(json, text) is 'A value without the credentials that its place may have.';

create or replace function outboxd._strip_each(p_array json, p_place text) returns json
    language sql immutable
as $$
    select case when bool_or(s.stripped::text <> s.given::text)
                then ('[' || string_agg(s.stripped::text, ',' order by s.nth) || ']')::json
                else p_array
           end
      from (select e.value as given, outboxd._strip_as(e.value, p_place) as stripped, e.nth
              from json_array_elements(p_array) with ordinality as e(value, nth)) as s
$$;
comment on function outboxd._strip_each(json, text) is 'Each element without the credentials that its place may have.';

create or replace function outboxd.new_task_id() returns text
    language plpgsql volatile security definer
as $$
begin
    return 'task_' || left(replace(gen_random_uuid()::text, '-', ''), 16);
end
$$;
comment on function outboxd.new_task_id() is
    'A fresh task id. A registration is sealed for one task id, so get the id first, then seal, then issue. No errors.';

create or replace function outboxd.issue_task(
    p_account_id text,
    p_task_type text,
    p_request_context jsonb default null,
    p_registration bytea default null,
    p_registration_nonce bytea default null,
    p_task_id text default null,
    p_url text default null,
    p_retry_horizon_seconds integer default null
) returns text
    language plpgsql volatile security definer
as $$
declare
    issued text := coalesce(p_task_id, outboxd.new_task_id());
    moment double precision := outboxd._now();
begin
    perform outboxd._check_account(p_account_id);
    if coalesce(p_task_type, '') = '' or issued = '' then
        raise exception using
            errcode = 'OD011',
            message = 'a task needs an id and a type that are not empty',
            hint = 'Leave p_task_id out for a new id; p_task_type is the operation, such as create_media_buy.';
    end if;
    if jsonb_typeof(p_request_context) <> 'object' then
        raise exception using
            errcode = 'OD013',
            message = format('the request context of task %s is not a JSON object', issued),
            hint = 'Pass the request''s context member, or null where it had none.';
    end if;
    if (p_registration is null) <> (p_registration_nonce is null)
       or octet_length(p_registration) not between 18 and 1048576 or octet_length(p_registration_nonce) <> 12 then
        raise exception using
            errcode = 'OD012',
            message = format('the registration of task %s is not a sealed envelope and its nonce of 12 bytes', issued),
            hint = 'Pass encrypted_registration and nonce as outboxd seal printed them, both or neither.';
    end if;
    if p_registration is null and (p_url is not null or p_retry_horizon_seconds is not null) then
        raise exception using
            errcode = 'OD012',
            message = format('task %s has a URL or a retry horizon, but no registration', issued),
            hint = 'The URL is only a hint beside the sealed registration, which alone says where the webhook goes.';
    end if;
    if p_registration is not null then
        if p_task_id is null then
            raise exception using
                errcode = 'OD012',
                message = 'a registration is sealed for one task id, and none was passed',
                hint = 'Get an id from outboxd.new_task_id(), seal the registration for it, and pass both.';
        end if;
        perform outboxd._check_reportable(issued, p_task_type);
        if p_retry_horizon_seconds is not null then
            perform outboxd._horizon(p_retry_horizon_seconds);
        end if;
    end if;

    insert into decisioning_tasks
           (task_id, account_id, state, task_type, request_context, webhook_registration, webhook_registration_nonce,
            created_at, updated_at)
    values (issued, p_account_id, 'submitted', p_task_type, p_request_context, p_registration, p_registration_nonce,
            moment, moment)
        on conflict (task_id) do nothing;
    if not found then
        raise exception using
            errcode = 'OD005',
            message = format('task %s exists already', issued),
            hint = 'Issue each task once; leave p_task_id out for a new id.';
    end if;
    if p_url is not null or p_retry_horizon_seconds is not null then
        insert into :"outbox_hints" (task_id, url, retry_horizon_seconds)
        values (issued, p_url, p_retry_horizon_seconds);
    end if;
    perform outboxd._tell_observers('submitted', issued, p_account_id, p_task_type, moment, moment);
    return issued;
end
$$;
comment on function outboxd.issue_task(text, text, jsonb, bytea, bytea, text, text, integer) is
    'Issues a task in state submitted and returns its id; with a sealed registration, its end will be announced. Errors: OD005, OD010, OD011, OD012, OD013, OD018.';

create or replace function outboxd.update_progress(p_task_id text, p_progress jsonb) returns boolean
    language plpgsql volatile security definer
as $$
declare
    task record;
    moment double precision := outboxd._now();
begin
    select t.state, t.account_id, t.task_type, t.created_at into task
      from decisioning_tasks as t
     where t.task_id = p_task_id and t.state not in ('completed', 'failed')
       for no key update;
    if not found then
        return false;
    end if;
    update decisioning_tasks as t
       set state = case t.state when 'submitted' then 'working' else t.state end,
           progress = p_progress,
           updated_at = moment
     where t.task_id = p_task_id;
    if task.state = 'submitted' then
        perform outboxd._tell_observers('working', p_task_id, task.account_id, task.task_type, task.created_at, moment);
    end if;
    return true;
end
$$;
comment on function outboxd.update_progress(text, jsonb) is
    'Replaces a task''s progress; a submitted task is working from then on. False, and nothing happens, if the task has ended or is unknown. No errors.';

-- Both ends of a task. The row is locked first, so that of many who end it at once one does, and the others see how.
create or replace function outboxd._end_task(p_task_id text, p_state text, p_document json, p_horizon integer)
    returns boolean
    language plpgsql volatile
as $$
declare
    what text := case p_state when 'completed' then 'result' else 'error' end;
    parsed jsonb := outboxd._checked(what, p_task_id, p_document);
    document json := p_document;
    task decisioning_tasks;
    hint record;
    moment timestamptz;
    updated double precision;
begin
    select t.* into task from decisioning_tasks as t where t.task_id = p_task_id for no key update;
    if not found then
        raise exception using
            errcode = 'OD001',
            message = format('task %s is not known', p_task_id),
            hint = 'Issue it first, or look whether it was discarded.';
    end if;
    if p_state = 'completed' and outboxd._is_suspect(parsed)
       and task.task_type in ('list_accounts', 'sync_accounts', 'sync_governance', 'create_media_buy',
                              'update_media_buy', 'get_media_buys', 'sync_creatives', 'list_creatives') then
        document := outboxd._strip(p_document);
        parsed := document::jsonb;
    end if;
    if task.state in ('completed', 'failed') then
        if task.state <> p_state then
            raise exception using
                errcode = 'OD004',
                message = format('task %s is already in terminal state %s', p_task_id, task.state),
                hint = 'A task ends once. Read how with outboxd.get_task.';
        elsif (case p_state when 'completed' then task.result else task.error end) is distinct from parsed then
            raise exception using
                errcode = case p_state when 'completed' then 'OD002' else 'OD003' end,
                message = format('task %s is already in state %s, with a different %s', p_task_id, p_state, what),
                hint = 'A task ends once. Repeating its end with an equal ' || what || ' is allowed, and changes nothing.';
        end if;
        return false;
    end if;

    moment := clock_timestamp();
    updated := extract(epoch from moment)::double precision;
    update decisioning_tasks as t
       set state = p_state,
           result = case p_state when 'completed' then parsed else t.result end,
           error = case p_state when 'failed' then parsed else t.error end,
           -- The outbox row owns the registration from here on.
           webhook_registration = null,
           webhook_registration_nonce = case when t.webhook_registration is null then t.webhook_registration_nonce end,
           updated_at = updated
     where t.task_id = p_task_id;

    if task.webhook_registration is not null then
        perform outboxd._check_reportable(p_task_id, task.task_type);
        if coalesce(octet_length(task.webhook_registration_nonce), 0) <> 12 then
            raise exception using
                errcode = 'OD012',
                message = format('task %s has a registration without its nonce of 12 bytes', p_task_id),
                hint = 'The task''s row was changed by hand; restore the nonce, or clear the registration to end the task '
                       'without a webhook.';
        end if;
        delete from :"outbox_hints" as h where h.task_id = p_task_id
            returning h.url, h.retry_horizon_seconds into hint;
        -- The lease until the year 9999 marks a composed row; migration 0004 says why.
        insert into :"outbox"
               (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key, encrypted_body,
                envelope_nonce, state, lease_expires_at, retry_horizon_seconds)
        values (p_task_id, task.account_id, task.task_type, p_state, coalesce(hint.url, ''), '',
                'whk_' || gen_random_uuid(), task.webhook_registration, task.webhook_registration_nonce, 'in_flight',
                '9999-01-01 00:00:00+00', outboxd._horizon(coalesce(p_horizon, hint.retry_horizon_seconds)))
            on conflict (task_id) do nothing;
        if not found then
            raise exception using
                errcode = 'OD015',
                message = format('task %s is %s, but the outbox holds a webhook of it already', p_task_id, task.state),
                hint = 'A task is announced once: either enqueue a sealed row, or issue it with a registration.';
        end if;
        insert into :"outbox_composed" (task_id, version, result, composed_at)
        values (p_task_id, 1, document::text, moment);
        perform outboxd._trace(p_task_id);
        perform outboxd._wake();
    end if;
    perform outboxd._tell_observers(p_state, p_task_id, task.account_id, task.task_type, task.created_at, updated);
    return true;
end
$$;
comment on function outboxd._end_task(text, text, json, integer) is 'Completes or fails a task.';

create or replace function outboxd.complete_task(
    p_task_id text, p_result json, p_retry_horizon_seconds integer default null
) returns boolean
    language plpgsql volatile security definer
as $$
begin
    return outboxd._end_task(p_task_id, 'completed', p_result, p_retry_horizon_seconds);
end
$$;
comment on function outboxd.complete_task(text, json, integer) is
    'Completes a task with its result, and enqueues its webhook if it has a registration. True if this call did; false if it was completed with an equal result before. Errors: OD001, OD002, OD004, OD011, OD012, OD013, OD014, OD015, OD018.';

create or replace function outboxd.fail_task(
    p_task_id text, p_error json, p_retry_horizon_seconds integer default null
) returns boolean
    language plpgsql volatile security definer
as $$
begin
    return outboxd._end_task(p_task_id, 'failed', p_error, p_retry_horizon_seconds);
end
$$;
comment on function outboxd.fail_task(text, json, integer) is
    'Fails a task with its error object (code, message, recovery), and enqueues its webhook if it has a registration. True if this call did; false if it failed with an equal error before. Errors: OD001, OD003, OD004, OD011, OD012, OD013, OD014, OD015, OD018.';

create or replace function outboxd.get_task(p_task_id text, p_account_id text) returns table (
    task_id text, account_id text, state text, task_type text, progress jsonb, result jsonb, error jsonb,
    request_context jsonb, created_at double precision, updated_at double precision, has_webhook boolean
)
    language sql stable security definer
as $$
    select t.task_id, t.account_id, t.state, t.task_type, t.progress, t.result, t.error, t.request_context,
           t.created_at, t.updated_at, t.webhook_registration is not null
      from decisioning_tasks as t
     where t.task_id = p_task_id and t.account_id = p_account_id
$$;
comment on function outboxd.get_task(text, text) is
    'One task of one account; no row if it is unknown or another account''s. has_webhook tells of a webhook that is still to be enqueued. No errors.';

create or replace function outboxd.discard_task(p_task_id text) returns boolean
    language plpgsql volatile security definer
as $$
declare
    task record;
begin
    delete from decisioning_tasks as t where t.task_id = p_task_id
        returning t.account_id, t.task_type, t.created_at into task;
    if not found then
        return false;
    end if;
    perform outboxd._tell_observers('discarded', p_task_id, task.account_id, task.task_type, task.created_at,
                                    outboxd._now());
    return true;
end
$$;
comment on function outboxd.discard_task(text) is
    'Removes a task, as though it had never been issued; a webhook that was enqueued is still delivered. False if it is unknown. No errors.';

create or replace function outboxd.task_types() returns table (task_type text, protocol text)
    language sql stable security definer
as $$
    select t.task_type, t.protocol from outboxd._task_types() as t
$$;
comment on function outboxd.task_types() is
    'The task types that webhooks report on, with the protocol that their body names, if any. No errors.';
