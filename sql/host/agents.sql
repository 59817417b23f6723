-- Buyer agents, for hosts in any language: register, suspend and remove them, and find the one who is asking.
--
-- The rows are those of the SDK's registry, so that both may serve one database. A change is announced on the
-- channel `outboxd_agents` when its transaction commits. Nothing here judges a request: whether an agent that
-- is suspended or blocked may go on is the host's decision.

-- A notification holds fewer than 8,000 bytes. A longer one names no agent, which means any of them.
create or replace function outboxd._notify_agent(p_op text, p_agent_url text)
returns void
language sql
as $$
    select pg_notify('outboxd_agents',
                     case when octet_length(payload::text) < 8000 then payload
                          else jsonb_build_object('op', p_op, 'agent_url', null) end::text)
      from jsonb_build_object('op', p_op, 'agent_url', p_agent_url) as payload
$$;

comment on function outboxd._notify_agent(text, text) is
'Internal: announces a change of an agent on channel outboxd_agents after commit. Errors: none.';

create or replace function outboxd.upsert_agent(
    p_agent_url            text,
    p_display_name         text,
    p_status               text default 'active',
    p_billing_capabilities text[] default array['operator'],
    p_api_key_id           text default null,
    p_default_terms        jsonb default null,
    p_allowed_brands       text[] default null,
    p_ext                  jsonb default '{}'
)
returns boolean
language plpgsql
security definer
as $$
declare
    wrong  text;
    holder text;
    fresh  boolean;
begin
    wrong := case
        when p_agent_url is null then 'p_agent_url is null'
        when p_display_name is null then 'p_display_name is null'
        when p_billing_capabilities is null then 'p_billing_capabilities is null'
        when exists (select from unnest(p_billing_capabilities) as mode where mode is null)
            then 'p_billing_capabilities has a null member'
        when exists (select from unnest(p_allowed_brands) as brand where brand is null)
            then 'p_allowed_brands has a null member'
        when p_ext is null or jsonb_typeof(p_ext) <> 'object' then 'p_ext is not a JSON object'
        when jsonb_typeof(p_default_terms) <> 'object' then 'p_default_terms is neither null nor a JSON object'
    end;
    if wrong is null and p_default_terms is not null then
        select format('member "%s" of p_default_terms is unknown or of the wrong JSON type', term.key)
          into wrong
          from jsonb_each(p_default_terms) as term
         where jsonb_typeof(term.value) <> 'null'
           and (term.key, jsonb_typeof(term.value)) not in (('rate_card', 'string'), ('payment_terms', 'string'),
                                                            ('credit_limit', 'object'), ('billing_entity', 'object'))
         order by term.key
         limit 1;
    end if;
    if wrong is not null then
        raise exception using
            errcode = 'OD101',
            message = format('agent "%s" is not registered: %s', p_agent_url, wrong),
            hint = 'default terms may have rate_card and payment_terms (strings), credit_limit and billing_entity '
                   '(objects); p_ext is an object, {} where there is nothing to say.';
    end if;
    if p_status is null or p_status not in ('active', 'suspended', 'blocked') then
        raise exception using
            errcode = 'OD102',
            message = format('agent "%s" cannot have the status "%s"', p_agent_url, p_status),
            hint = 'A status is one of active, suspended and blocked.';
    end if;
    begin
        insert into adcp_buyer_agents as agent (agent_url, display_name, status, billing_capabilities, api_key_id,
                                                default_terms, allowed_brands, ext)
        values (p_agent_url,
                p_display_name,
                p_status,
                -- Sets: each member once, in the order of its bytes, so that the same set is the same value.
                (select coalesce(jsonb_agg(mode order by mode), '[]')
                   from (select distinct unnest(p_billing_capabilities) collate "C" as mode) as modes),
                p_api_key_id,
                case when p_default_terms is not null then
                    (select coalesce(jsonb_object_agg(term.key, term.value), '{}')
                       from jsonb_each(p_default_terms) as term
                      where jsonb_typeof(term.value) <> 'null')
                end,
                case when p_allowed_brands is not null then
                    (select coalesce(jsonb_agg(brand order by brand), '[]')
                       from (select distinct unnest(p_allowed_brands) collate "C" as brand) as brands)
                end,
                p_ext)
            on conflict (agent_url) do update
           set display_name = excluded.display_name,
               status = excluded.status,
               billing_capabilities = excluded.billing_capabilities,
               api_key_id = excluded.api_key_id,
               default_terms = excluded.default_terms,
               allowed_brands = excluded.allowed_brands,
               ext = excluded.ext,
               updated_at = now()
        returning agent.xmax = 0
             into fresh;
    exception
        when unique_violation then
            select agent_url
              into holder
              from adcp_buyer_agents
             where api_key_id = p_api_key_id
               and agent_url <> p_agent_url
             limit 1;
            raise exception using
                errcode = 'OD103',
                message = format('agent "%s" cannot have this credential: it is that of agent "%s"', p_agent_url, holder),
                hint = 'A credential speaks for one agent. Give this one another api_key_id, or take it from the '
                       'other agent first.';
    end;
    perform outboxd._notify_agent('upsert', p_agent_url);
    return fresh;
end
$$;

comment on function outboxd.upsert_agent(text, text, text, text[], text, jsonb, text[], jsonb) is
'Registers an agent, or replaces all that is known of it; true where it is new. Errors: OD101, OD102, OD103.';

create or replace function outboxd.set_agent_status(p_agent_url text, p_status text)
returns boolean
language plpgsql
security definer
as $$
declare
    known boolean;
begin
    if p_status is null or p_status not in ('active', 'suspended', 'blocked') then
        raise exception using
            errcode = 'OD102',
            message = format('agent "%s" cannot have the status "%s"', p_agent_url, p_status),
            hint = 'A status is one of active, suspended and blocked.';
    end if;
    update adcp_buyer_agents
       set status = p_status,
           updated_at = now()
     where agent_url = p_agent_url;
    known := found;
    perform outboxd._notify_agent('set_status', p_agent_url);
    return known;
end
$$;

comment on function outboxd.set_agent_status(text, text) is
'Sets an agent''s status and nothing else; false where there is no such agent, which is no error. Errors: OD102.';

create or replace function outboxd.delete_agent(p_agent_url text)
returns boolean
language plpgsql
security definer
as $$
declare
    known boolean;
begin
    delete from adcp_buyer_agents
     where agent_url = p_agent_url;
    known := found;
    perform outboxd._notify_agent('delete', p_agent_url);
    return known;
end
$$;

comment on function outboxd.delete_agent(text) is
'Removes an agent for good; false where there is no such agent, which is no error. Errors: none.';

-- A list that is not one fails here rather than being read as "no list".
create or replace function outboxd.resolve_agent_by_url(p_agent_url text)
returns table (
    agent_url            text,
    display_name         text,
    status               text,
    billing_capabilities text[],
    default_terms        jsonb,
    allowed_brands       text[],
    ext                  jsonb
)
language sql
stable
security definer
as $$
    select agent.agent_url,
           agent.display_name,
           agent.status,
           array(select jsonb_array_elements_text(agent.billing_capabilities)),
           nullif(agent.default_terms, 'null'),
           case when nullif(agent.allowed_brands, 'null') is not null then
               array(select jsonb_array_elements_text(agent.allowed_brands))
           end,
           agent.ext
      from adcp_buyer_agents as agent
     where agent.agent_url = p_agent_url
$$;

comment on function outboxd.resolve_agent_by_url(text) is
'The agent with exactly this URL, whatever its status: one row, or none. Errors: none.';

-- Without the unique index two agents may share a credential. Neither is meant then.
create or replace function outboxd.resolve_agent_by_credential(p_api_key_id text)
returns table (
    agent_url            text,
    display_name         text,
    status               text,
    billing_capabilities text[],
    default_terms        jsonb,
    allowed_brands       text[],
    ext                  jsonb
)
language plpgsql
stable
security definer
as $$
declare
    holders text[];
begin
    holders := array(select agent.agent_url from adcp_buyer_agents as agent where agent.api_key_id = p_api_key_id limit 2);
    if cardinality(holders) > 1 then
        raise warning using
            errcode = 'OD104',
            message = format('a credential of agents "%s" and "%s" resolves to neither', holders[1], holders[2]),
            hint = 'Give each a credential of its own, then run: outboxd migrate';
    elsif cardinality(holders) = 1 then
        return query select * from outboxd.resolve_agent_by_url(holders[1]);
    end if;
end
$$;

comment on function outboxd.resolve_agent_by_credential(text) is
'The one agent that has this credential identifier (an API key''s id or an OAuth client''s), whatever its status: one row, or none; none too, with a warning OD104, where several agents have it. Errors: none.';
