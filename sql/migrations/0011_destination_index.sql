-- The index by which a claim finds rows of given destinations, and by which it learns which destinations have rows due.
--
-- Without it a claim reads through every row of a destination that may not be posted to now in order to get at the rows
-- behind: with 1,000,000 of them in front, a second or more for each look. With it, rows that have no room cost nothing.
-- A destination is the URL's authority in lower case, without the port that https implies; the claim's statements spell the
-- same expression. It is of built-in functions alone, since whoever inserts a row evaluates it, and cut to 260 characters
-- (a name and a port have 259), since no insert may fail because an entry does not fit into an index page.
-- The rows are those of the index that claims follow in their order, but the condition is spelt differently, so that no planner
-- takes one for the other: when its statistics are behind a backlog it expects a row or none, and then any index will do.
-- Needs: ownership of the table. It blocks writers while it is built: on a large live table first run the
-- same statement by hand with CREATE INDEX CONCURRENTLY, after which this one changes nothing.

create index if not exists :"outbox_destination_idx" on :"outbox" (
    left(rtrim(replace(lower(split_part(split_part(split_part(
        coalesce(url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260),
    available_at,
    id
) where state || '' in ('pending', 'in_flight');
