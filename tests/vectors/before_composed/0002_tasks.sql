-- The task registry: what a host knows of a task, and the sealed registration of whom to tell when it ends.
--
-- The same objects and names as Python package adcp 9.2.0 makes; on a table that it made, every statement
-- here changes nothing. The times are Unix seconds by the host's clock, as that package stores them.
-- Needs: CREATE on the schema; ownership of the table where it exists.

create table if not exists decisioning_tasks (
    task_id                    text collate "C" not null primary key,
    account_id                 text collate "C" not null,
    state                      text not null default 'submitted',
    task_type                  text not null,
    progress                   jsonb,
    result                     jsonb,
    error                      jsonb,
    request_context            jsonb,
    -- Both are cleared in the transaction that ends the task and writes its outbox row.
    webhook_registration       bytea,
    webhook_registration_nonce bytea,
    created_at                 double precision not null,
    updated_at                 double precision not null
);

-- Tables made by earlier versions of that package lack these.
alter table decisioning_tasks add column if not exists request_context jsonb;
alter table decisioning_tasks add column if not exists webhook_registration bytea;
alter table decisioning_tasks add column if not exists webhook_registration_nonce bytea;

create index if not exists decisioning_tasks_account_idx on decisioning_tasks (account_id);
