-- Writes down every change of the outbox's rows, in the same transaction, for tests/support/history.rs. OUTBOX is the table.

create type outbox_side as (
    state       text,
    token       text,
    lease_until double precision,
    attempts    integer,
    error       text,
    retry_until double precision
);

create table outbox_history (
    seq    bigserial primary key,
    row_id bigint not null,
    key    text not null,
    worker text not null,
    asked  double precision not null,
    at     double precision not null,
    fenced boolean not null,
    before outbox_side,
    after  outbox_side
);

create function outbox_side_of(o OUTBOX) returns outbox_side language sql immutable as $$
    select row(
        o.state,
        o.lease_token,
        -- A composed row keeps the end of its lease where its time is.
        extract(epoch from case when o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00' then o.available_at
                                else o.lease_expires_at end)::double precision,
        o.attempt_count,
        o.last_error,
        extract(epoch from o.retry_until)::double precision
    )::outbox_side
$$;

create function record_outbox_history() returns trigger language plpgsql as $$
declare
    changed OUTBOX;
begin
    changed := case when tg_op = 'DELETE' then old else new end;
    insert into outbox_history (row_id, key, worker, asked, at, fenced, before, after)
    values (
        changed.id,
        changed.idempotency_key,
        current_setting('application_name'),
        extract(epoch from statement_timestamp())::double precision,
        extract(epoch from clock_timestamp())::double precision,
        -- Whoever settles must compare the token with the one of its lease, ours from a list and the SDK's from a parameter.
        current_query() ~* 'lease_token\s*=\s*(\$\d+|\w+\.lease_token)',
        case when tg_op <> 'INSERT' then outbox_side_of(old) end,
        case when tg_op <> 'DELETE' then outbox_side_of(new) end
    );
    return null;
end
$$;

create trigger record_outbox_history after insert or update or delete on OUTBOX
    for each row execute function record_outbox_history();
