-- What an operator does to many rows at once: try them again, take them out of delivery, end them, delete them.
--
-- The commands of the same names run the functions with an underscore in front, batch by batch and as their own user, on
-- whichever outbox their search_path leads to. The ones without work as their owner, on the outbox that these functions
-- serve. A filter is a JSON object; every member that it has must hold for a row:
--   states (array), account, destination (host and port as a claim names it), code (of last_error, up to the colon), task,
--   key, older_than and newer_than (seconds since the row was written).
--
-- A fresh idempotency key. Receivers remember a key for the row's retry horizon. Until then a row is tried again under the
-- key that it has: whoever took it before takes it for a repeat. After that nobody answers for what the old key stands for,
-- so the row gets a new one, and its horizon begins anew with its next attempt. A composed row's body is rendered with the
-- new key; a sealed one's has to be opened and sealed again, which only the command can, holding the envelope key.

-- The name of the table that these functions are about; which schema's, the search_path says.
create or replace function outboxd._outbox() returns text
    language sql immutable
as $$
    select (parse_ident(':"outbox"'))[1]
$$;
comment on function outboxd._outbox() is 'The name of the outbox table that the functions for operators work on.';

create or replace function outboxd._check_filter(p_action text, p_filter jsonb) returns text[]
    language plpgsql stable
as $$
declare
    may text[] := case p_action when 'requeue' then array['invalid', 'expired', 'delivered', 'pending']
                                when 'purge' then array['delivered', 'expired', 'invalid']
                                else array['pending', 'in_flight'] end;
    states text[];
    member text;
begin
    if p_filter is null or jsonb_typeof(p_filter) <> 'object' then
        raise exception using errcode = 'OD301', message = 'the filter is not a JSON object',
            hint = 'Pass an object such as {"code": "envelope_unopenable"}.';
    end if;
    for member in select key from jsonb_each(p_filter) loop
        if member not in ('states', 'account', 'destination', 'code', 'task', 'key', 'older_than', 'newer_than')
           or jsonb_typeof(p_filter -> member)
              <> (case when member = 'states' then 'array' when member like '%_than' then 'number' else 'string' end) then
            raise exception using errcode = 'OD301', message = format('the filter''s member %s is unknown or of another type', member),
                hint = 'states is an array; account, destination, code, task and key are texts; older_than and newer_than are '
                       'seconds.';
        end if;
    end loop;
    select array_agg(value) into states from jsonb_array_elements_text(coalesce(p_filter -> 'states', '[]'));
    if not coalesce(states <@ may, true) then
        raise exception using
            errcode = 'OD302',
            message = format('%s is for rows in state %s alone', p_action, array_to_string(may, ', ')),
            hint = 'A row that is in flight is its holder''s; what is over can be requeued, what is open can be cancelled or '
                   'expired.';
    end if;
    -- Who asks for no state gets none back that was delivered, nor hastens what waits.
    return coalesce(states, case p_action when 'requeue' then array['invalid', 'expired'] else may end);
end
$$;
comment on function outboxd._check_filter(text, jsonb) is 'The states that an action is meant for, or OD301 or OD302.';

-- A stretch of rows in the order of their ids, and which of them the filter means. Its cost follows the bound.
create or replace function outboxd._find_deliveries(
    p_action text, p_filter jsonb, p_after bigint, p_through bigint, p_look integer
) returns table (looked_to bigint, ids bigint[], fresh bigint, sealed bigint, held bigint)
    language plpgsql stable
as $$
declare
    wanted text[] := outboxd._check_filter(p_action, p_filter);
    account text := p_filter ->> 'account';
    destination text := p_filter ->> 'destination';
    code text := p_filter ->> 'code';
    task text := p_filter ->> 'task';
    idempotency text := p_filter ->> 'key';
    before timestamptz := statement_timestamp() - (p_filter ->> 'older_than')::double precision * interval '1 second';
    since timestamptz := statement_timestamp() - (p_filter ->> 'newer_than')::double precision * interval '1 second';
    last bigint;
begin
    if task is not null or idempotency is not null then
        -- One row at most, found by its own index.
        select max(o.id) into last from :"outbox" as o
         where (task is null or o.task_id = task) and (idempotency is null or o.idempotency_key = idempotency)
           and o.id > p_after and o.id <= p_through;
        p_after := last - 1;
        p_through := last;
    else
        select max(l.id) into last
          from (select o.id from :"outbox" as o
                 where o.id > p_after and o.id <= p_through order by o.id limit p_look) as l
        having count(*) >= p_look;
        p_through := coalesce(last, p_through);
    end if;
    return query
    with meant as (
        select o.id::bigint as id,
               p_action = 'requeue' and o.state in ('delivered', 'expired', 'invalid')
                   and o.attempt_count > 0 and o.retry_until <= statement_timestamp() as renewed,
               o.task_id,
               coalesce(o.state = 'in_flight'
                        and case when o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00'
                                 then o.lease_token is not null and o.available_at > statement_timestamp()
                                 else o.lease_expires_at > statement_timestamp() end, false) as leased
          from :"outbox" as o
         where o.id > p_after
           and o.id <= p_through
           and case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end = any (wanted)
           and (account is null or o.account_id = account)
           and (destination is null
                or left(rtrim(replace(lower(split_part(split_part(split_part(
                       coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
                   = destination)
           and (code is null or split_part(o.last_error, ':', 1) = code)
           and (task is null or o.task_id = task)
           and (idempotency is null or o.idempotency_key = idempotency)
           and (before is null or o.created_at <= before)
           and (since is null or o.created_at > since)
           -- What is due already waits for a slot and for nothing else.
           and (p_action <> 'requeue' or o.state not in ('pending', 'in_flight')
                or o.available_at > statement_timestamp())
           -- Until its horizon a finished row is the proof of what became of it, and keeps its task from being announced
           -- twice.
           and (p_action <> 'purge' or o.retry_until <= statement_timestamp())
    )
    select case when task is null and idempotency is null then last end,
           coalesce(array_agg(m.id order by m.id), '{}'),
           count(*) filter (where m.renewed),
           count(*) filter (where m.renewed
                            and not exists (select from :"outbox_composed" as c where c.task_id = m.task_id)),
           count(*) filter (where m.leased)
      from meant as m;
end
$$;
comment on function outboxd._find_deliveries(text, jsonb, bigint, bigint, integer) is
    'The next rows that a filter means, and how far the look came: null at the end.';

create or replace function outboxd._note_deliveries(
    p_action text, p_filter jsonb, p_run text, p_actor text, p_reason text, p_ids bigint[], p_through bigint,
    p_former_keys text[]
) returns void
    language plpgsql volatile
as $$
begin
    if coalesce(p_reason !~ '\S', true) then
        raise exception using errcode = 'OD303', message = format('%s needs a reason', p_action),
            hint = 'Say why; it is kept with what was done.';
    end if;
    insert into :"outbox_audit" (run, action, actor, reason, filter, ids, through, former_keys)
    values (p_run, p_action, p_actor, p_reason, p_filter, p_ids, p_through, p_former_keys);
end
$$;
comment on function outboxd._note_deliveries(text, jsonb, text, text, text, bigint[], bigint, text[]) is
    'Writes down what was done, by whom and why (OD303).';

-- Does it to rows that were found, as far as they still are what the action is for. A row that somebody else has locked,
-- and one under a live lease, whose holder may have the receiver's 2xx in hand, are answered as held; those whose body only
-- the envelope key's holder can give a fresh key, as sealed.
create or replace function outboxd._change_deliveries(
    p_action text, p_filter jsonb, p_ids bigint[], p_through bigint, p_run text, p_actor text, p_reason text
) returns table (changed bigint, fresh bigint, held bigint[], sealed bigint[])
    language plpgsql volatile
as $$
declare
    wanted text[] := outboxd._check_filter(p_action, p_filter);
    code text := p_filter ->> 'code';
    done bigint[];
    former text[];
begin
    with locked as (
        select o.id, o.task_id, o.idempotency_key, o.state,
               o.attempt_count > 0 and o.retry_until <= statement_timestamp() as over,
               exists (select from :"outbox_composed" as c where c.task_id = o.task_id) as composed
          from :"outbox" as o
         where o.id = any (p_ids)
           and coalesce(case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end
                            = any (wanted)
                        and (code is null or split_part(o.last_error, ':', 1) = code)
                        and (o.state <> 'in_flight'
                             or case when o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00'
                                     then o.lease_token is null or o.available_at <= statement_timestamp()
                                     else o.lease_expires_at is null or o.lease_expires_at <= statement_timestamp() end)
                        and (p_action <> 'requeue' or o.state not in ('pending', 'in_flight')
                             or o.available_at > statement_timestamp())
                        and (p_action <> 'purge' or o.retry_until <= statement_timestamp()), false)
           for update of o skip locked
    ),
    free as (
        select l.*, p_action = 'requeue' and l.over and l.state in ('delivered', 'expired', 'invalid') as renewed
          from locked as l
    ),
    requeued as (
        update :"outbox" as o
           set state            = case when f.composed then 'in_flight' else 'pending' end,
               lease_expires_at = case when f.composed then timestamptz '9999-01-01 00:00:00+00' end,
               lease_token      = null,
               available_at     = clock_timestamp(),
               idempotency_key  = case when f.renewed then 'whk_' || gen_random_uuid() else o.idempotency_key end,
               -- A row that was never tried has no horizon yet; one with a fresh key begins a new one.
               attempt_count    = case when f.renewed then 0 else o.attempt_count end,
               first_attempt_at = case when f.renewed or o.attempt_count = 0 then null else o.first_attempt_at end,
               retry_until      = case when f.renewed or o.attempt_count = 0 then null else o.retry_until end,
               delivered_at     = null,
               updated_at       = clock_timestamp()
          from free as f
         where p_action = 'requeue'
           and o.id = f.id
           and (f.composed or not f.renewed)
        returning o.id, f.renewed, f.idempotency_key
    ),
    ended as (
        update :"outbox" as o
           set state            = case p_action when 'cancel' then 'invalid' else 'expired' end,
               last_error       = case p_action when 'cancel' then 'cancelled' else o.last_error end,
               lease_token      = null,
               lease_expires_at = null,
               -- What was never tried gets a horizon all the same, by which it is deleted some day.
               first_attempt_at = coalesce(o.first_attempt_at, clock_timestamp()),
               retry_until      = coalesce(o.retry_until,
                                           clock_timestamp() + o.retry_horizon_seconds * interval '1 second'),
               updated_at       = clock_timestamp()
          from free as f
         where p_action in ('cancel', 'expire')
           and o.id = f.id
        returning o.id
    ),
    deleted as (
        delete from :"outbox" as o
         using free as f
         where p_action = 'purge'
           and o.id = f.id
        returning o.id
    )
    select array_agg(d.id order by d.id),
           coalesce(array_agg(d.id || ' ' || d.former order by d.id) filter (where d.former is not null), '{}'),
           (select coalesce(array_agg(f.id::bigint order by f.id), '{}') from free as f where f.renewed and not f.composed)
      into done, former, sealed
      from (select r.id::bigint as id, case when r.renewed then r.idempotency_key end as former from requeued as r
             union all select e.id::bigint, null from ended as e
             union all select d.id::bigint, null from deleted as d) as d;
    changed := coalesce(cardinality(done), 0);
    fresh := cardinality(former);
    -- What is still as it was wanted, and not ours to change now.
    select coalesce(array_agg(o.id::bigint order by o.id), '{}')
      into held
      from :"outbox" as o
     where o.id = any (p_ids)
       and o.id <> all (sealed)
       and o.id <> all (coalesce(done, '{}'))
       and case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end
           = any (wanted || case when p_action in ('cancel', 'expire') then array['pending', 'in_flight'] else '{}' end)
       and (p_action <> 'requeue' or o.state not in ('pending', 'in_flight') or o.available_at > statement_timestamp());
    if changed > 0 then
        perform outboxd._note_deliveries(p_action, p_filter, p_run, p_actor, p_reason, done, p_through, former);
        if p_action = 'requeue' then
            perform outboxd._wake();
        end if;
    end if;
    return next;
end
$$;
comment on function outboxd._change_deliveries(text, jsonb, bigint[], bigint, text, text, text) is
    'Requeues, cancels, expires or purges rows that were found, and notes it. OD301, OD302, OD303.';

-- The same for sealed rows past their horizon, whose bodies the caller sealed again with the key that each gets now. Only
-- what was opened is replaced, which the nonce tells.
create or replace function outboxd._renew_deliveries(
    p_filter jsonb, p_ids bigint[], p_was bytea[], p_bodies bytea[], p_nonces bytea[], p_keys text[], p_through bigint,
    p_run text, p_actor text, p_reason text
) returns bigint
    language plpgsql volatile
as $$
declare
    done bigint[];
    former text[];
begin
    with given as materialized (
        select g.* from unnest(p_ids, p_was, p_bodies, p_nonces, p_keys) as g(id, was, body, nonce, key)
    ),
    free as (
        select o.id, o.idempotency_key
          from given as g
          join :"outbox" as o on o.id = g.id
         where coalesce(o.state in ('delivered', 'expired', 'invalid') and o.envelope_nonce = g.was
                        and o.retry_until <= statement_timestamp(), false)
           for update of o skip locked
    ),
    renewed as (
        update :"outbox" as o
           set state            = 'pending',
               idempotency_key  = g.key,
               encrypted_body   = g.body,
               envelope_nonce   = g.nonce,
               lease_token      = null,
               lease_expires_at = null,
               available_at     = clock_timestamp(),
               attempt_count    = 0,
               first_attempt_at = null,
               retry_until      = null,
               delivered_at     = null,
               updated_at       = clock_timestamp()
          from free as f
          join given as g on g.id = f.id
         where o.id = f.id
        returning o.id, f.idempotency_key as former
    )
    select array_agg(r.id::bigint order by r.id), array_agg(r.id || ' ' || r.former order by r.id)
      into done, former
      from renewed as r;
    if done is not null then
        perform outboxd._note_deliveries('requeue', p_filter, p_run, p_actor, p_reason, done, p_through, former);
        perform outboxd._wake();
    end if;
    return coalesce(cardinality(done), 0);
end
$$;
comment on function outboxd._renew_deliveries(jsonb, bigint[], bytea[], bytea[], bytea[], text[], bigint, text, text, text) is
    'Requeues sealed rows past their horizon under fresh keys, and notes it. OD303.';

-- Counts, or does it in one transaction to as many rows as are allowed: what a run of the command does in many.
create or replace function outboxd._steer_deliveries(
    p_action text, p_filter jsonb, p_reason text, p_run boolean, p_most integer
) returns table (matched bigint, changed bigint, fresh_key bigint, needs_command bigint, held bigint)
    language plpgsql volatile
as $$
declare
    run text := gen_random_uuid();
    place bigint := 0;
    top bigint;
    found record;
    batch record;
    ids bigint[];
begin
    matched := 0; changed := 0; fresh_key := 0; needs_command := 0; held := 0;
    select coalesce(max(o.id), 0) into top from :"outbox" as o;
    loop
        select f.* into found from outboxd._find_deliveries(p_action, p_filter, place, top, 20000) as f;
        ids := case when p_run then found.ids[1:greatest(p_most - matched, 0)] else found.ids end;
        matched := matched + cardinality(ids);
        if not p_run then
            fresh_key := fresh_key + found.fresh;
            needs_command := needs_command + found.sealed;
            held := held + found.held;
        elsif cardinality(ids) > 0 then
            select c.* into batch
              from outboxd._change_deliveries(p_action, p_filter, ids, ids[cardinality(ids)], run, session_user,
                                              p_reason) as c;
            changed := changed + batch.changed;
            fresh_key := fresh_key + batch.fresh;
            needs_command := needs_command + cardinality(batch.sealed);
            held := held + cardinality(batch.held);
        end if;
        place := found.looked_to;
        exit when place is null or (p_run and matched >= p_most);
    end loop;
    return next;
end
$$;
comment on function outboxd._steer_deliveries(text, jsonb, text, boolean, integer) is
    'Counts what a filter means, or does it.';

create or replace function outboxd.requeue_deliveries(
    p_filter jsonb, p_reason text default null, p_run boolean default false, p_most integer default 10000
) returns table (matched bigint, changed bigint, fresh_key bigint, needs_command bigint, held bigint)
    language sql volatile security definer
as $$
    select s.* from outboxd._steer_deliveries('requeue', p_filter, p_reason, p_run, p_most) as s
$$;
comment on function outboxd.requeue_deliveries(jsonb, text, boolean, integer) is
    'Counts the webhooks that a filter means, or has them tried again; past their horizon under a fresh idempotency key. Errors: OD301, OD302, OD303.';

create or replace function outboxd.cancel_deliveries(
    p_filter jsonb, p_reason text default null, p_run boolean default false, p_most integer default 10000
) returns table (matched bigint, changed bigint, fresh_key bigint, needs_command bigint, held bigint)
    language sql volatile security definer
as $$
    select s.* from outboxd._steer_deliveries('cancel', p_filter, p_reason, p_run, p_most) as s
$$;
comment on function outboxd.cancel_deliveries(jsonb, text, boolean, integer) is
    'Counts the open webhooks that a filter means, or takes them out of delivery. Errors: OD301, OD302, OD303.';

create or replace function outboxd.expire_deliveries(
    p_filter jsonb, p_reason text default null, p_run boolean default false, p_most integer default 10000
) returns table (matched bigint, changed bigint, fresh_key bigint, needs_command bigint, held bigint)
    language sql volatile security definer
as $$
    select s.* from outboxd._steer_deliveries('expire', p_filter, p_reason, p_run, p_most) as s
$$;
comment on function outboxd.expire_deliveries(jsonb, text, boolean, integer) is
    'Counts the open webhooks that a filter means, or ends them as though their horizon were over. Errors: OD301, OD302, OD303.';

create or replace function outboxd.purge_deliveries(
    p_filter jsonb, p_reason text default null, p_run boolean default false, p_most integer default 10000
) returns table (matched bigint, changed bigint, fresh_key bigint, needs_command bigint, held bigint)
    language sql volatile security definer
as $$
    select s.* from outboxd._steer_deliveries('purge', p_filter, p_reason, p_run, p_most) as s
$$;
comment on function outboxd.purge_deliveries(jsonb, text, boolean, integer) is
    'Counts the finished webhooks past their horizon that a filter means, or deletes them. Errors: OD301, OD302, OD303.';

create or replace function outboxd.list_changes(p_limit integer default 100) returns table (
    at timestamptz, run text, action text, actor text, db_user text, reason text, filter jsonb, rows bigint, fresh_keys bigint
)
    language sql stable security definer
as $$
    select max(a.at), a.run, a.action, a.actor, a.db_user, a.reason, a.filter, sum(cardinality(a.ids)),
           sum(cardinality(a.former_keys))
      from :"outbox_audit" as a
     group by a.run, a.action, a.actor, a.db_user, a.reason, a.filter
     order by max(a.at) desc
     limit p_limit
$$;
comment on function outboxd.list_changes(integer) is
    'What operators did, the last runs first; for outboxd_reader. No errors.';
