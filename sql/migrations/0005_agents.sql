-- The buyer agents: with whom the seller trades, on which terms, and by which credential each is known.
--
-- The same objects and names as Python package adcp 9.2.0 makes; on a table that it made, every statement
-- here changes nothing, unless the table is from before credentials had to be unique.
-- Needs: CREATE on the schema; ownership of the table where it exists.

create table if not exists adcp_buyer_agents (
    agent_url            text collate "C" primary key,
    display_name         text not null,
    status               text not null default 'active' check (status in ('active', 'suspended', 'blocked')),
    billing_capabilities jsonb not null default '["operator"]'::jsonb,
    -- An identifier of the credential (an API key's id, an OAuth client's), never the credential itself.
    api_key_id           text collate "C",
    default_terms        jsonb,
    -- Null: no list, so every brand.
    allowed_brands       jsonb,
    ext                  jsonb not null default '{}'::jsonb,
    created_at           timestamptz not null default now(),
    updated_at           timestamptz not null default now()
);

-- A credential of two agents would speak for whichever is found. The duplicates are looked for before any
-- index changes, and the old index goes only after the new one is there; one block, so that a failure leaves
-- what was there even where this file is not run in a transaction, and a lock, so that no duplicate is
-- written between looking and building.
do $$
declare
    shared bigint;
begin
    lock table adcp_buyer_agents in share mode;
    select count(*)
      into shared
      from (select from adcp_buyer_agents where api_key_id is not null group by api_key_id having count(*) > 1) as ids;
    if shared > 0 then
        raise exception using
            errcode = 'OD104',
            message = format('api_key_id in adcp_buyer_agents cannot be made unique: %s of its values belong to more '
                             'than one agent each', shared),
            hint = 'Find them: select api_key_id, array_agg(agent_url) from adcp_buyer_agents where api_key_id is not '
                   'null group by 1 having count(*) > 1; then give each agent a credential of its own, or set '
                   'api_key_id to null for all but one (until then such a credential resolves to no agent), and '
                   'migrate again.';
    end if;
    create unique index if not exists adcp_buyer_agents_api_key_id_uidx
        on adcp_buyer_agents (api_key_id) where api_key_id is not null;
    drop index if exists adcp_buyer_agents_api_key_id_idx;
end
$$;

-- For whoever lists the agents that are not active, which are few.
create index if not exists adcp_buyer_agents_status_idx on adcp_buyer_agents (status) where status <> 'active';
