-- The list of an account's tasks: filtered, sorted and paged in SQL, in the form of the list_tasks response.

-- The protocol under which a task is listed; null: it is not, since the list's schema knows three protocols only.
create or replace function outboxd._listed_protocol(p_task_type text) returns text
    language sql immutable
as $$
    select case
           when p_task_type in ('accept_proposal', 'build_creative', 'buy_products', 'control_media_buy',
                                'create_media_buy', 'decline_proposals', 'get_account_financials',
                                'get_media_buy_delivery', 'get_media_buys', 'get_products', 'get_reporting_status',
                                'list_account_changes', 'list_accounts', 'list_creative_formats', 'list_products',
                                'log_event', 'provide_performance_feedback', 'refine_proposals', 'report_usage',
                                'request_proposals', 'sync_accounts', 'sync_audiences', 'sync_catalogs',
                                'sync_event_sources', 'sync_governance', 'sync_reporting_receipts',
                                'sync_reporting_status', 'update_media_buy') then 'media-buy'
           when p_task_type in ('get_creative_delivery', 'get_creative_features', 'list_creatives',
                                'list_transformers', 'preview_creative', 'sync_creatives', 'validate_input')
               then 'creative'
           when p_task_type in ('activate_signal', 'get_signals') then 'signals'
           end
$$;
comment on function outboxd._listed_protocol(text) is 'The protocol under which a task is listed.';

-- 2026-01-02T03:04:05.678901+00:00, without the fraction where it is zero. Seconds and fraction are taken apart before
-- rounding: together they are too large for a double to hold a microsecond's half.
create or replace function outboxd._iso(p_seconds double precision) returns text
    language sql immutable
as $$
    select to_char(at, 'YYYY-MM-DD"T"HH24:MI:SS') || case when at = date_trunc('second', at) then ''
                                                          else to_char(at, '.US') end || '+00:00'
      from (select to_timestamp(floor(p_seconds)) at time zone 'UTC'
                   + round((p_seconds - floor(p_seconds)) * 1e6::double precision) * interval '1 microsecond') as t(at)
$$;
comment on function outboxd._iso(double precision) is 'Unix seconds in ISO 8601.';

-- Members in the order of their keys, so that what is searched does not hang on how it was written.
create or replace function outboxd._sorted_text(p_value jsonb) returns text
    language plpgsql immutable
as $$
begin
    case jsonb_typeof(p_value)
        when 'object' then
            return '{' || coalesce((select string_agg(to_json(m.key)::text || ': ' || outboxd._sorted_text(m.value), ', '
                                                      order by m.key collate "C")
                                      from jsonb_each(p_value) as m(key, value)), '') || '}';
        when 'array' then
            return '[' || coalesce((select string_agg(outboxd._sorted_text(e.value), ', ' order by e.nth)
                                      from jsonb_array_elements(p_value) with ordinality as e(value, nth)), '') || ']';
        else
            return p_value::text;
    end case;
end
$$;
comment on function outboxd._sorted_text(jsonb) is 'A document as text, its members sorted by key.';

create or replace function outboxd._refuse_list(p_field text, p_what text) returns void
    language plpgsql immutable
as $$
begin
    raise exception using
        errcode = 'OD016',
        message = format('the list was not made: %s', p_what),
        detail = json_build_object('code', 'INVALID_REQUEST', 'recovery', 'correctable', 'field', p_field),
        hint = 'Answer the buyer with DETAIL; its request cannot be served as it is.';
end
$$;
comment on function outboxd._refuse_list(text, text) is 'Raises OD016 for one member of the request.';

create or replace function outboxd._list_time(p_filters jsonb, p_name text) returns double precision
    language plpgsql stable
as $$
declare
    given text := p_filters ->> p_name;
begin
    if given is null then
        return null;
    end if;
    if given !~ '^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)$' then
        perform outboxd._refuse_list('filters', format('%s is not a date and time with a time zone', p_name));
    end if;
    begin
        return extract(epoch from given::timestamptz)::double precision;
    exception
        when datetime_field_overflow or invalid_datetime_format then
            perform outboxd._refuse_list('filters', format('%s is no date of the calendar', p_name));
    end;
end
$$;
comment on function outboxd._list_time(jsonb, text) is 'One of the date filters, in Unix seconds.';

create or replace function outboxd._check_list(p_filters jsonb, p_sort jsonb, p_pagination jsonb) returns void
    language plpgsql immutable
as $$
declare
    filter record;
    most jsonb := p_pagination -> 'max_results';
begin
    if jsonb_typeof(p_filters) <> 'object' then
        perform outboxd._refuse_list('filters', 'filters is not an object');
    elsif jsonb_typeof(p_sort) <> 'object' then
        perform outboxd._refuse_list('sort', 'sort is not an object');
    elsif jsonb_typeof(p_pagination) <> 'object' then
        perform outboxd._refuse_list('pagination', 'pagination is not an object');
    end if;
    for filter in select f.key, f.value, jsonb_typeof(f.value) as type from jsonb_each(p_filters) as f(key, value) loop
        if filter.key in ('protocols', 'statuses', 'task_types', 'task_ids') then
            if filter.type <> 'array'
               or exists (select from jsonb_array_elements(filter.value) as e where jsonb_typeof(e) <> 'string') then
                perform outboxd._refuse_list('filters', format('%s is not a list of strings', filter.key));
            end if;
        elsif filter.key = 'has_webhook' then
            if filter.type <> 'boolean' then
                perform outboxd._refuse_list('filters', 'has_webhook is neither true nor false');
            end if;
        elsif filter.key in ('protocol', 'status', 'task_type', 'context_contains',
                             'created_after', 'created_before', 'updated_after', 'updated_before') then
            if filter.type <> 'string' and not (filter.type = 'null' and filter.key <> 'context_contains') then
                perform outboxd._refuse_list('filters', format('%s is not a string', filter.key));
            end if;
        else
            perform outboxd._refuse_list('filters', format('there is no filter %L', filter.key));
        end if;
    end loop;
    if coalesce(p_sort ->> 'field', 'created_at') not in ('created_at', 'updated_at', 'status', 'task_type', 'protocol')
       or coalesce(p_sort ->> 'direction', 'desc') not in ('asc', 'desc') then
        perform outboxd._refuse_list('sort', 'it sorts by created_at, updated_at, status, task_type or protocol, asc or desc');
    end if;
    if most is not null and (jsonb_typeof(most) <> 'number' or most::text !~ '^\d{1,3}$'
                             or most::text::integer not between 1 and 100) then
        perform outboxd._refuse_list('pagination.max_results', 'max_results is not an integer from 1 to 100');
    end if;
end
$$;
comment on function outboxd._check_list(jsonb, jsonb, jsonb) is 'Refuses list requests that the protocol does not know (OD016).';

-- Where the page before ended: the sorted column's value and the id. A cursor is good for the one account, filters and
-- sorting that it was made for. It is no secret and no permission: whoever forges one can at most skip own tasks.
create or replace function outboxd._read_cursor(p_cursor text, p_query text, out value text, out task_id text)
    language plpgsql immutable
as $$
declare
    opened jsonb;
begin
    begin
        opened := convert_from(decode(translate(p_cursor, '-_', '+/')
                                      || repeat('=', (4 - length(p_cursor) % 4) % 4), 'base64'), 'UTF8')::jsonb;
    exception
        when others then opened := null;
    end;
    if coalesce(jsonb_typeof(opened) <> 'array' or jsonb_array_length(opened) <> 3, true)
       or opened ->> 1 is null or opened ->> 2 is null then
        perform outboxd._refuse_list('pagination.cursor', 'the cursor is none of ours; start again without one');
    elsif opened ->> 0 <> p_query then
        perform outboxd._refuse_list('pagination.cursor',
                                     'the cursor was made for another query; start again without one');
    end if;
    value := opened ->> 1;
    task_id := opened ->> 2;
end
$$;
comment on function outboxd._read_cursor(text, text) is 'What a cursor says, or OD016.';

create or replace function outboxd.list_tasks(
    p_account_id text,
    p_filters jsonb default '{}',
    p_sort jsonb default '{}',
    p_pagination jsonb default '{}'
) returns jsonb
    language plpgsql stable security definer
as $$
declare
    filters jsonb := coalesce(p_filters, '{}');
    sort jsonb := coalesce(p_sort, '{}');
    pagination jsonb := coalesce(p_pagination, '{}');
    field text := coalesce(sort ->> 'field', 'created_at');
    direction text := coalesce(sort ->> 'direction', 'desc');
    most integer;
    query text;
    sorted text;
    wanted text;
    further text := '';
    cursor_text text := coalesce(pagination ->> 'cursor', '');
    place_value text;
    place_id text;
    total bigint;
    protocols jsonb;
    states jsonb;
    rows jsonb;
    last_value text;
    last_id text;
    returned bigint;
    more boolean;
begin
    perform outboxd._check_list(filters, sort, pagination);
    most := coalesce((pagination ->> 'max_results')::integer, 50);
    query := encode(sha256(convert_to(json_build_array(p_account_id, filters, field, direction)::text, 'UTF8')), 'hex');
    -- One of five expressions of ours; nothing of the request becomes part of a statement.
    sorted := case field when 'created_at' then 't.created_at' when 'updated_at' then 't.updated_at'
                         when 'status' then 't.state collate "C"' when 'task_type' then 't.task_type collate "C"'
                         else 'outboxd._listed_protocol(t.task_type) collate "C"' end;
    if cursor_text <> '' then
        select c.value, c.task_id into place_value, place_id from outboxd._read_cursor(cursor_text, query) as c;
        if field in ('created_at', 'updated_at') and place_value !~ '^-?\d+(\.\d+)?(e[+-]?\d+)?$' then
            perform outboxd._refuse_list('pagination.cursor', 'the cursor is none of ours; start again without one');
        end if;
        further := format(' and (%s, t.task_id) %s ($11::%s, $12)', sorted, case direction when 'asc' then '>' else '<' end,
                          case when field in ('created_at', 'updated_at') then 'double precision' else 'text' end);
    end if;
    wanted := $query$
          from decisioning_tasks as t
         where t.account_id = $1
           and outboxd._listed_protocol(t.task_type) is not null
           and ($2 -> 'protocol' is null or coalesce(outboxd._listed_protocol(t.task_type) = $2 ->> 'protocol', false))
           and ($2 -> 'status' is null or coalesce(t.state = $2 ->> 'status', false))
           and ($2 -> 'task_type' is null or coalesce(t.task_type = $2 ->> 'task_type', false))
           and ($2 -> 'protocols' is null or $2 -> 'protocols' ? outboxd._listed_protocol(t.task_type))
           and ($2 -> 'statuses' is null or $2 -> 'statuses' ? t.state)
           and ($2 -> 'task_types' is null or $2 -> 'task_types' ? t.task_type)
           and ($2 -> 'task_ids' is null or $2 -> 'task_ids' ? t.task_id)
           and ($3 is null or t.created_at > $3)
           and ($4 is null or t.created_at < $4)
           and ($5 is null or t.updated_at > $5)
           and ($6 is null or t.updated_at < $6)
           and ($7 is null or (t.webhook_registration is not null) = $7)
           and ($8 is null or strpos(outboxd._sorted_text(coalesce(t.request_context, '{}')), $8) > 0)
    $query$;

    execute 'with matching as (select outboxd._listed_protocol(t.task_type) as protocol, t.state, count(*) as tasks'
            || wanted || $query$ group by 1, 2)
        select coalesce(sum(tasks), 0)::bigint,
               coalesce((select jsonb_object_agg(protocol, tasks)
                           from (select protocol, sum(tasks) as tasks from matching group by 1) as p), '{}'),
               coalesce((select jsonb_object_agg(state, tasks)
                           from (select state, sum(tasks) as tasks from matching group by 1) as s), '{}')
          from matching
    $query$
       into total, protocols, states
      using p_account_id, filters, outboxd._list_time(filters, 'created_after'),
            outboxd._list_time(filters, 'created_before'), outboxd._list_time(filters, 'updated_after'),
            outboxd._list_time(filters, 'updated_before'), (filters ->> 'has_webhook')::boolean,
            filters ->> 'context_contains';

    execute format($query$
        with page as (
            select t.*, (%1$s)::text as sorted_by, row_number() over (order by %1$s %2$s, t.task_id %2$s) as nth
              %3$s %4$s
             order by %1$s %2$s, t.task_id %2$s
             limit $10 + 1
        )
        select coalesce(jsonb_agg(
                   jsonb_build_object('task_id', task_id, 'task_type', task_type, 'status', state,
                                      'created_at', outboxd._iso(created_at), 'updated_at', outboxd._iso(updated_at),
                                      'has_webhook', webhook_registration is not null,
                                      'domain', outboxd._listed_protocol(task_type))
                   || case when progress <> 'null' then jsonb_build_object('progress', progress) else '{}' end
                   || case when error <> 'null' then jsonb_build_object('error', error) else '{}' end
                   || case when state in ('completed', 'failed', 'canceled', 'rejected')
                           then jsonb_build_object('completed_at', outboxd._iso(updated_at)) else '{}' end
                   order by nth) filter (where nth <= $10), '[]'),
               max(sorted_by) filter (where nth = $10),
               max(task_id) filter (where nth = $10),
               count(*) filter (where nth <= $10),
               count(*) > $10
          from page
    $query$, sorted, direction, wanted, further)
       into rows, last_value, last_id, returned, more
      using p_account_id, filters, outboxd._list_time(filters, 'created_after'),
            outboxd._list_time(filters, 'created_before'), outboxd._list_time(filters, 'updated_after'),
            outboxd._list_time(filters, 'updated_before'), (filters ->> 'has_webhook')::boolean,
            filters ->> 'context_contains', null::text, most, place_value, place_id;

    return jsonb_build_object(
        'status', 'completed',
        'query_summary', jsonb_build_object(
            'total_matching', total, 'returned', returned, 'domain_breakdown', protocols, 'status_breakdown', states,
            'filters_applied', (select coalesce(jsonb_agg(k), '[]') from jsonb_object_keys(filters) as k),
            'sort_applied', jsonb_build_object('field', field, 'direction', direction)),
        'tasks', rows,
        'pagination', jsonb_build_object('has_more', more, 'total_count', total)
            || case when more then jsonb_build_object('cursor',
                   translate(rtrim(replace(encode(convert_to(json_build_array(query, last_value, last_id)::text, 'UTF8'),
                                                  'base64'), E'\n', ''), '='), '+/', '-_')) else '{}' end);
end
$$;
comment on function outboxd.list_tasks(text, jsonb, jsonb, jsonb) is
    'A page of an account''s tasks in the form of the list_tasks response: filters, sort and pagination as that request has them. Errors: OD016, whose DETAIL is the error for the buyer.';
