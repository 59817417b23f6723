-- Purpose: the index by which list_by_destination finds the rows for a destination that has few among many.
-- Parameters: none.
-- Guard: as index_list_accounts. A destination is spelt with nothing behind it, so that no planner takes this index for the one by
-- which claims find open rows: it holds finished rows too, and a claim would read past all of those.

create index concurrently if not exists :"outbox_list_dest_idx" on :"outbox" (
    (left(rtrim(replace(lower(split_part(split_part(split_part(
        coalesce(url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260) || ''),
    id
);
