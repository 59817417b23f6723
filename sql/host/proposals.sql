-- Proposals, for hosts in any language: draft, commit, reserve, and bind to the media buy they become.
--
--     put_draft         commit_proposal     try_reserve_consumption     finalize_consumption
--        ──►  draft  ──────────►  committed  ──────────►  consuming  ──────────►  consumed
--                                           ◄──────────
--                                        release_consumption
--
-- mark_consumed goes from committed to consumed at once. The rows are those of the SDK's proposal store, so
-- that both may serve one database. The account is the tenant: a proposal of another account is no proposal.
-- Whether a commitment has lapsed (expires_at) is the host's decision, which may grant a grace.
--
-- Every error carries in its DETAIL, as JSON, what the buyer may be told: code, recovery, field.

create or replace function outboxd.put_draft(
    p_account_id            text,
    p_proposal_id           text,
    p_recipes               jsonb,
    p_proposal_payload      jsonb,
    p_recipe_schema_version integer default 1
)
returns boolean
language plpgsql
security definer
as $$
declare
    internal constant text := '{"code": "INTERNAL_ERROR", "recovery": "terminal", "field": null}';
    wrong text;
    fresh boolean;
    was   text;
begin
    wrong := case
        when p_account_id is null then 'p_account_id is null'
        when p_proposal_id is null then 'p_proposal_id is null'
        when p_recipes is null or jsonb_typeof(p_recipes) <> 'object' then 'p_recipes is not a JSON object'
        when p_proposal_payload is null or jsonb_typeof(p_proposal_payload) <> 'object'
            then 'p_proposal_payload is not a JSON object'
        when p_recipe_schema_version is null or p_recipe_schema_version < 1 then 'p_recipe_schema_version is not 1 or more'
    end;
    if wrong is null then
        select format('the recipe of product "%s" is not a JSON object', recipe.key)
          into wrong
          from jsonb_each(p_recipes) as recipe
         where jsonb_typeof(recipe.value) <> 'object'
         order by recipe.key
         limit 1;
    end if;
    if wrong is not null then
        raise exception using
            errcode = 'OD201',
            message = format('proposal "%s" is not drafted: %s', p_proposal_id, wrong),
            detail = internal,
            hint = 'p_recipes is an object of recipes by product id, each an object; p_proposal_payload is an object.';
    end if;
    insert into adcp_proposal_drafts as proposal (account_id, proposal_id, state, recipes, proposal_payload,
                                                  recipe_schema_version)
    values (p_account_id, p_proposal_id, 'draft', p_recipes, p_proposal_payload, p_recipe_schema_version)
        on conflict (account_id, proposal_id) do update
       set recipes = excluded.recipes,
           proposal_payload = excluded.proposal_payload,
           recipe_schema_version = excluded.recipe_schema_version,
           updated_at = now()
     where proposal.state = 'draft'
    returning proposal.xmax = 0
         into fresh;
    if fresh is null then
        -- The conflict has locked the row, so that it is still there, and as it was.
        select proposal.state
          into was
          from adcp_proposal_drafts as proposal
         where proposal.account_id = p_account_id
           and proposal.proposal_id = p_proposal_id;
        raise exception using
            errcode = 'OD205',
            message = format('proposal "%s" is %s: only a draft can be drafted anew', p_proposal_id, was),
            detail = internal,
            hint = 'What was committed does not change. Draft under another proposal id.';
    end if;
    return fresh;
end
$$;

comment on function outboxd.put_draft(text, text, jsonb, jsonb, integer) is
'Stores a draft, or replaces it while it is one; true where it is new. Errors: OD201, OD205.';

create or replace function outboxd.get_proposal(p_account_id text, p_proposal_id text)
returns table (
    account_id            text,
    proposal_id           text,
    state                 text,
    recipes               jsonb,
    proposal_payload      jsonb,
    expires_at            timestamptz,
    media_buy_id          text,
    recipe_schema_version integer,
    created_at            timestamptz,
    updated_at            timestamptz
)
language sql
stable
security definer
as $$
    select proposal.account_id,
           proposal.proposal_id,
           proposal.state,
           proposal.recipes,
           proposal.proposal_payload,
           proposal.expires_at,
           proposal.media_buy_id,
           proposal.recipe_schema_version,
           proposal.created_at,
           proposal.updated_at
      from adcp_proposal_drafts as proposal
     where proposal.account_id = p_account_id
       and proposal.proposal_id = p_proposal_id
$$;

comment on function outboxd.get_proposal(text, text) is
'A proposal of this account: one row, or none. Errors: none.';

create or replace function outboxd.get_proposal_by_media_buy(p_account_id text, p_media_buy_id text)
returns table (
    account_id            text,
    proposal_id           text,
    state                 text,
    recipes               jsonb,
    proposal_payload      jsonb,
    expires_at            timestamptz,
    media_buy_id          text,
    recipe_schema_version integer,
    created_at            timestamptz,
    updated_at            timestamptz
)
language sql
stable
security definer
as $$
    select proposal.account_id,
           proposal.proposal_id,
           proposal.state,
           proposal.recipes,
           proposal.proposal_payload,
           proposal.expires_at,
           proposal.media_buy_id,
           proposal.recipe_schema_version,
           proposal.created_at,
           proposal.updated_at
      from adcp_proposal_drafts as proposal
     where proposal.account_id = p_account_id
       and proposal.media_buy_id = p_media_buy_id
$$;

comment on function outboxd.get_proposal_by_media_buy(text, text) is
'The proposal that became this media buy of this account: one row, or none. Errors: none.';

create or replace function outboxd.commit_proposal(
    p_account_id       text,
    p_proposal_id      text,
    p_expires_at       timestamptz,
    p_proposal_payload jsonb
)
returns boolean
language plpgsql
security definer
as $$
declare
    internal constant text := '{"code": "INTERNAL_ERROR", "recovery": "terminal", "field": null}';
    wrong text;
    held  record;
begin
    wrong := case
        when p_account_id is null then 'p_account_id is null'
        when p_proposal_id is null then 'p_proposal_id is null'
        -- The years that the SDK's language can hold: a row beyond them would fail its every read.
        when p_expires_at is null or not p_expires_at between '0001-01-02 00:00Z' and '9999-12-30 00:00Z'
            then 'p_expires_at is not a time within the years 1 to 9999'
        when p_proposal_payload is null or jsonb_typeof(p_proposal_payload) <> 'object'
            then 'p_proposal_payload is not a JSON object'
    end;
    if wrong is not null then
        raise exception using
            errcode = 'OD201',
            message = format('proposal "%s" is not committed: %s', p_proposal_id, wrong),
            detail = internal,
            hint = 'A commitment has a deadline, until which the inventory is held, and the payload that the buyer was '
                   'shown.';
    end if;
    select proposal.state, proposal.expires_at, proposal.proposal_payload
      into held
      from adcp_proposal_drafts as proposal
     where proposal.account_id = p_account_id
       and proposal.proposal_id = p_proposal_id
       for update;
    if not found then
        raise exception using
            errcode = 'OD204',
            message = format('proposal "%s" cannot be committed: this account has no such proposal', p_proposal_id),
            detail = internal,
            hint = 'Call outboxd.put_draft first, with the same account.';
    elsif held.state = 'committed' then
        if held.expires_at is not distinct from p_expires_at and held.proposal_payload = p_proposal_payload then
            return false;
        end if;
        raise exception using
            errcode = 'OD206',
            message = format('proposal "%s" is committed already, with another deadline or payload', p_proposal_id),
            detail = internal,
            hint = 'Only the same commitment may be repeated. Draft under another proposal id.';
    elsif held.state <> 'draft' then
        raise exception using
            errcode = 'OD205',
            message = format('proposal "%s" is %s: only a draft can be committed', p_proposal_id, held.state),
            detail = internal,
            hint = 'It was committed and reserved before. Read it with outboxd.get_proposal.';
    end if;
    update adcp_proposal_drafts as proposal
       set state = 'committed',
           expires_at = p_expires_at,
           proposal_payload = p_proposal_payload,
           updated_at = now()
     where proposal.account_id = p_account_id
       and proposal.proposal_id = p_proposal_id;
    return true;
end
$$;

comment on function outboxd.commit_proposal(text, text, timestamptz, jsonb) is
'Makes a draft binding until a deadline; false where the same commitment was made before. Errors: OD201, OD204, OD205, OD206.';

-- The row's lock makes reservations queue: whoever comes second sees what the first left behind.
create or replace function outboxd.try_reserve_consumption(p_account_id text, p_proposal_id text)
returns table (
    account_id            text,
    proposal_id           text,
    state                 text,
    recipes               jsonb,
    proposal_payload      jsonb,
    expires_at            timestamptz,
    media_buy_id          text,
    recipe_schema_version integer,
    created_at            timestamptz,
    updated_at            timestamptz
)
language plpgsql
security definer
as $$
declare
    was text;
begin
    select proposal.state
      into was
      from adcp_proposal_drafts as proposal
     where proposal.account_id = p_account_id
       and proposal.proposal_id = p_proposal_id
       for update;
    if not found then
        raise exception using
            errcode = 'OD202',
            message = format('proposal "%s" cannot be reserved: this account has no such proposal', p_proposal_id),
            detail = '{"code": "PROPOSAL_NOT_FOUND", "recovery": "correctable", "field": "proposal_id"}',
            hint = 'The buyer named a proposal that it was not offered, or one that was discarded.';
    elsif was <> 'committed' then
        raise exception using
            errcode = 'OD203',
            message = format('proposal "%s" is %s: only a committed one can be reserved', p_proposal_id, was),
            detail = '{"code": "PROPOSAL_NOT_COMMITTED", "recovery": "correctable", "field": "proposal_id"}',
            hint = case was
                when 'draft' then 'The buyer must have it committed first.'
                when 'consuming' then 'Another request holds it; outboxd.release_consumption gives it back.'
                else 'It was bought already.'
            end;
    end if;
    update adcp_proposal_drafts as proposal
       set state = 'consuming',
           updated_at = now()
     where proposal.account_id = p_account_id
       and proposal.proposal_id = p_proposal_id;
    return query select * from outboxd.get_proposal(p_account_id, p_proposal_id);
end
$$;

comment on function outboxd.try_reserve_consumption(text, text) is
'Reserves a committed proposal for one media buy and returns it; of two who try at once, one gets it. Errors: OD202, OD203.';

create or replace function outboxd._consume_proposal(
    p_account_id   text,
    p_proposal_id  text,
    p_media_buy_id text,
    p_from         text
)
returns boolean
language plpgsql
as $$
declare
    internal constant text := '{"code": "INTERNAL_ERROR", "recovery": "terminal", "field": null}';
    held      record;
    violated  text;
begin
    if p_account_id is null or p_proposal_id is null or p_media_buy_id is null then
        raise exception using
            errcode = 'OD201',
            message = format('proposal "%s" is not consumed: an argument is null', p_proposal_id),
            detail = internal,
            hint = 'Name the account, the proposal and the media buy that it became.';
    end if;
    select proposal.state, proposal.media_buy_id
      into held
      from adcp_proposal_drafts as proposal
     where proposal.account_id = p_account_id
       and proposal.proposal_id = p_proposal_id
       for update;
    if not found then
        raise exception using
            errcode = 'OD204',
            message = format('proposal "%s" cannot be consumed: this account has no such proposal', p_proposal_id),
            detail = internal,
            hint = 'Look at the account: a proposal of another one is not found.';
    elsif held.state = 'consumed' then
        if held.media_buy_id is not distinct from p_media_buy_id then
            return false;
        end if;
        raise exception using
            errcode = 'OD207',
            message = format('proposal "%s" is consumed by media buy "%s" already, not by "%s"',
                             p_proposal_id, held.media_buy_id, p_media_buy_id),
            detail = internal,
            hint = 'A proposal becomes one media buy. This media buy was made without it.';
    elsif held.state <> p_from then
        raise exception using
            errcode = 'OD205',
            message = format('proposal "%s" is %s, but must be %s to be consumed', p_proposal_id, held.state, p_from),
            detail = internal,
            hint = case p_from
                when 'consuming' then 'Call outboxd.try_reserve_consumption first, and act only where it succeeds.'
                else 'outboxd.mark_consumed takes what is committed and not reserved; a reservation is ended by '
                     'outboxd.finalize_consumption.'
            end;
    end if;
    update adcp_proposal_drafts as proposal
       set state = 'consumed',
           media_buy_id = p_media_buy_id,
           updated_at = now()
     where proposal.account_id = p_account_id
       and proposal.proposal_id = p_proposal_id;
    return true;
exception
    when unique_violation then
        get stacked diagnostics violated = constraint_name;
        if violated <> 'adcp_proposal_drafts_media_buy_idx' then
            raise;
        end if;
        raise exception using
            errcode = 'OD208',
            message = format('proposal "%s" cannot become media buy "%s": another proposal of this account did',
                             p_proposal_id, p_media_buy_id),
            detail = internal,
            hint = 'Find it with outboxd.get_proposal_by_media_buy; a media buy has one proposal.';
end
$$;

comment on function outboxd._consume_proposal(text, text, text, text) is
'Internal: what finalize_consumption and mark_consumed have in common. Errors: OD201, OD204, OD205, OD207, OD208.';

create or replace function outboxd.finalize_consumption(p_account_id text, p_proposal_id text, p_media_buy_id text)
returns boolean
language sql
security definer
as $$
    select outboxd._consume_proposal(p_account_id, p_proposal_id, p_media_buy_id, 'consuming')
$$;

comment on function outboxd.finalize_consumption(text, text, text) is
'Binds a reserved proposal to the media buy that was made of it; false where it is bound to it already. Errors: OD201, OD204, OD205, OD207, OD208.';

create or replace function outboxd.mark_consumed(p_account_id text, p_proposal_id text, p_media_buy_id text)
returns boolean
language sql
security definer
as $$
    select outboxd._consume_proposal(p_account_id, p_proposal_id, p_media_buy_id, 'committed')
$$;

comment on function outboxd.mark_consumed(text, text, text) is
'Binds a committed proposal to a media buy without a reservation; false where it is bound to it already. Errors: OD201, OD204, OD205, OD207, OD208.';

create or replace function outboxd.release_consumption(p_account_id text, p_proposal_id text)
returns boolean
language plpgsql
security definer
as $$
declare
    was text;
begin
    select proposal.state
      into was
      from adcp_proposal_drafts as proposal
     where proposal.account_id = p_account_id
       and proposal.proposal_id = p_proposal_id
       for update;
    -- Both are what giving back is for: the caller undoes without knowing how far it came.
    if not found or was = 'committed' then
        return false;
    elsif was <> 'consuming' then
        raise exception using
            errcode = 'OD205',
            message = format('proposal "%s" is %s: only a reservation can be given back', p_proposal_id, was),
            detail = '{"code": "INTERNAL_ERROR", "recovery": "terminal", "field": null}',
            hint = 'A draft was never reserved, and what is consumed stays so.';
    end if;
    update adcp_proposal_drafts as proposal
       set state = 'committed',
           updated_at = now()
     where proposal.account_id = p_account_id
       and proposal.proposal_id = p_proposal_id;
    return true;
end
$$;

comment on function outboxd.release_consumption(text, text) is
'Gives a reservation back, so that the buyer may try again; false where there is none to give back. Errors: OD205.';

create or replace function outboxd.discard_proposal(p_account_id text, p_proposal_id text)
returns boolean
language plpgsql
security definer
as $$
begin
    delete from adcp_proposal_drafts as proposal
     where proposal.account_id = p_account_id
       and proposal.proposal_id = p_proposal_id;
    return found;
end
$$;

comment on function outboxd.discard_proposal(text, text) is
'Removes a proposal in whatever state; false where there is none, which is no error. Errors: none.';
