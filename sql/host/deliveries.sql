-- What became of the webhooks, for operators: everything of the outbox but sealed bytes, lease tokens and what a URL may
-- hide behind its host. A function, not a view, so that the table's columns stay free to be altered.

create or replace function outboxd.list_deliveries(
    p_state text default null,
    p_account_id text default null,
    p_task_id text default null,
    p_limit integer default 100
) returns table (
    id bigint, task_id text, account_id text, task_type text, terminal_status text, kind text, destination text,
    signing_scope_id text, idempotency_key text, state text, attempt_count integer, available_at timestamptz,
    created_at timestamptz, first_attempt_at timestamptz, retry_until timestamptz, delivered_at timestamptz,
    last_http_status integer, last_error text
)
    language sql stable security definer
as $$
    select o.id, o.task_id, o.account_id, o.task_type, o.terminal_status,
           case when c.task_id is null then 'sealed' else 'composed' end,
           lower(substring(o.url from '^[^:/]*://(?:[^/?#@]*@)?([^/?#]*)')),
           o.signing_scope_id, o.idempotency_key,
           -- A composed row is in flight while somebody holds it; the table marks it so from the beginning.
           case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end,
           o.attempt_count, o.available_at, o.created_at, o.first_attempt_at, o.retry_until, o.delivered_at,
           o.last_http_status, o.last_error
      from :"outbox" as o
      left join :"outbox_composed" as c on c.task_id = o.task_id
     where (p_state is null
            or case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end = p_state)
       and (p_account_id is null or o.account_id = p_account_id)
       and (p_task_id is null or o.task_id = p_task_id)
     order by o.id desc
     limit p_limit
$$;
comment on function outboxd.list_deliveries(text, text, text, integer) is
    'The newest webhooks and what became of them, by state, account or task; for outboxd_reader. No errors.';
