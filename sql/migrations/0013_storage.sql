-- How the outbox is stored: what makes a delivery cheap to write, and keeps the table from growing with what was delivered.
--
-- Each row is updated twice, by its claim and by its settle, and neither can be a heap-only update: both move columns that
-- the SDK's indexes hold. What a page leaves free is worth having all the same. A new version on its old one's page is logged
-- as the few bytes that changed instead of the whole row, and a page that is fuller than this is pruned of dead versions by
-- whoever reads it next, without a vacuum. WAL of claim and settle together, bytes a delivery, measured by tests/bench/storage.py
-- (PostgreSQL 15, batches of 100; first in the flow of one batch in, one out, then from a backlog after a checkpoint, which adds
-- whole pages):
--
--     fillfactor          100            70            50            40
--     body  320 B   2376 2749     1728 2327     1351 2108     1276 2041
--     body 1056 B   3852 4739     2366 3526     1725 2800     1319 2801
--     body 1600 B   4967 5989     2514 4542     1317 3341     1368 3365
--
-- At 50 the table is no larger than at 100 either, since dead versions leave their room to new ones; at 40 it is. In which
-- order a batch is settled makes no difference. What remains is mostly index entries, six by a claim and four by a settle, all
-- but one of them in the SDK's own indexes: leaving out our index on open rows saves 40 bytes.
--
-- Autovacuum by default waits until a fifth of the table is dead. With a million delivered rows that are kept for their
-- horizon these are 200,000 versions, whose index entries every claim and sweep may come across; so it is the fiftieth part,
-- and as seldom as every 5,000 in a small table. The SDK's workers, which plan by statistics, want those as fresh.
-- Cutting free pages off the table's end would lock it against everybody for what the next minute fills again.
--
-- Pages that exist stay as they are, and the rows that replace them come into new ones. Whoever chose other values may set
-- them again; only that a fillfactor is set at all is looked for.
-- Needs: ownership of the tables. It waits for a vacuum that runs, and blocks neither readers nor writers.

alter table :"outbox" set (
    fillfactor = 50,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.02,
    vacuum_truncate = false,
    toast.vacuum_truncate = false
);

-- A row a replica, written every few seconds: these updates are heap-only as long as their page has room.
alter table :"outbox_replicas" set (fillfactor = 50);
