-- The proposals: what a seller offered to an account, from draft over commitment to the media buy it became.
--
-- The same objects and names as Python package adcp 9.2.0 makes; on a table that it made, every statement
-- here changes nothing. An account is the tenant: every key begins with it.
-- Needs: CREATE on the schema; ownership of the table where it exists.

create table if not exists adcp_proposal_drafts (
    account_id            text collate "C" not null,
    proposal_id           text collate "C" not null,
    state                 text not null check (state in ('draft', 'committed', 'consuming', 'consumed')),
    -- An object: product id to recipe.
    recipes               jsonb not null default '{}'::jsonb,
    proposal_payload      jsonb not null,
    -- How long the inventory is held; set by the commitment.
    expires_at            timestamptz,
    media_buy_id          text collate "C",
    recipe_schema_version integer not null default 1,
    created_at            timestamptz not null default now(),
    updated_at            timestamptz not null default now(),
    primary key (account_id, proposal_id)
);

-- From a media buy back to its proposal. Accounts may use the same id for buys of their own.
create unique index if not exists adcp_proposal_drafts_media_buy_idx
    on adcp_proposal_drafts (account_id, media_buy_id) where media_buy_id is not null;

-- For whoever sweeps what has lapsed.
create index if not exists adcp_proposal_drafts_expires_idx
    on adcp_proposal_drafts (expires_at) where expires_at is not null;
