-- Purpose: removes what an interrupted concurrent build left, which every insert pays for and no query uses.
-- Parameters: none; the index's name stands in the text, since it cannot be a parameter.
-- Guard: only after find_index has said that it is invalid and that nobody builds it. Blocks no writer.

drop index concurrently if exists :"outbox_index";
