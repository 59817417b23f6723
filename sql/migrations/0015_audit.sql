-- What operators did to rows and destinations: who, when, why, and to which; and how many attempts at once they allow a
-- destination.
--
-- A line for each statement that changed something, written by that statement, so that there is neither a change without
-- its line nor a line without its change, wherever a run is broken off. The lines of one run have its id, and say how far it
-- came: a run that was interrupted goes on behind that. Nobody deletes them here; they are few.
-- Needs: CREATE on the schema.

create table if not exists :"outbox_audit" (
    id          bigint generated always as identity primary key,
    at          timestamptz not null default clock_timestamp(),
    run         text collate "C" not null,
    action      text not null check (action in ('requeue', 'cancel', 'expire', 'purge', 'park', 'release', 'cap', 'uncap')),
    -- As the operator or the command named them, and as whom the database knew them.
    actor       text not null,
    db_user     text not null default session_user,
    reason      text not null check (reason ~ '\S'),
    -- Which rows were meant.
    filter      jsonb not null,
    -- The rows that were changed, and the highest one that was looked at.
    ids         bigint[] not null default '{}',
    through     bigint,
    -- What a row was known by before it was given a fresh idempotency key: "<id> <key>".
    former_keys text[] not null default '{}'
);
-- Where a run stands.
create index if not exists :"outbox_audit_run_idx" on :"outbox_audit" (run, id);

-- Below what the configuration allows each destination, for every replica alike. Read every few seconds; few.
create table if not exists :"outbox_caps" (
    destination text collate "C" primary key check (octet_length(destination) between 1 and 1024),
    most        integer not null check (most between 1 and 100000),
    actor       text not null,
    reason      text not null,
    since       timestamptz not null default clock_timestamp()
);
