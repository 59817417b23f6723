-- What a composed row lacks in the outbox: the result, as the host spelt it, and the moment that the body names.
--
-- A composed row stands in the outbox with its task's sealed registration where a sealed row has its body. It is
-- marked by state in_flight, no lease token and a lease until the year 9999, so that no claimer that does not know
-- composed rows ever takes it; for those that do, available_at says when it is due and when a lease on it ends.
-- Needs: CREATE on the schema; REFERENCES on the outbox table; CREATE on the database where schema outboxd is missing.

create table if not exists :"outbox_composed" (
    task_id     text collate "C" primary key references :"outbox" (task_id) on delete cascade,
    -- Of the body's form. Each is rendered for ever as it was first.
    version     smallint not null,
    result      text not null,
    composed_at timestamptz not null
);

-- What the host said beside a sealed registration that nobody can read here: where it goes, so that claims can share
-- slots between destinations, and for how long it is tried. Gone when the task ends or is discarded.
create table if not exists :"outbox_hints" (
    task_id               text collate "C" primary key references decisioning_tasks (task_id) on delete cascade,
    url                   text,
    retry_horizon_seconds integer
);

-- Pages of one account's tasks, newest first.
create index if not exists decisioning_tasks_account_created_idx on decisioning_tasks (account_id, created_at, task_id);

-- The host's functions are made in it. Not "if not exists", which asks for a right even where it does.
do $do$
begin
    if to_regnamespace('outboxd') is null then
        create schema outboxd;
    end if;
end
$do$;
