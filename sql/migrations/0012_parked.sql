-- Which destinations are left alone for now, so that a receiver which is down is tried by one replica at a time and not by
-- each; and for an operator to see: select * from this table, or `outboxd destinations`.
--
-- Workers of the SDK neither read nor write it. It is small and rewritten often: half-empty pages let a row's new version
-- stay on its page, where it needs no index entry and the next one finds its room again without a vacuum.
-- Needs: CREATE on the schema.

create table if not exists :"outbox_parked" (
    -- Host and port as the rows' URLs write them, in lower case.
    destination  text collate "C" primary key check (octet_length(destination) between 1 and 1024),
    -- From then on it is half-open: one row may be tried.
    parked_until timestamptz not null,
    reason       text not null,
    -- How often in a row; each doubles the next pause.
    trips        integer not null check (trips >= 0),
    -- Of the first time in a row.
    since        timestamptz not null default clock_timestamp(),
    -- Who saw it fail last, and who tries it now.
    replica      text not null,
    prober       text,
    probe_until  timestamptz,
    check ((prober is null) = (probe_until is null))
) with (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.5);
