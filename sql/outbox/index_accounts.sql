-- Purpose: the index by which claims find an account's rows for a destination, where delivery.account_share is set.
-- Parameters: none.
-- Guard: printed for an operator to run, and run by nobody else: it serves this one setting, and each delivery writes two entries
-- of it. It blocks no writer. Accounts are told apart by 200 characters, since no insert may fail because an entry does not
-- fit into an index page. The claim's statements spell the same expression and condition.

create index concurrently if not exists :"outbox_account_idx" on :"outbox" (
    (left(rtrim(replace(lower(split_part(split_part(split_part(
        coalesce(url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260)
     || '/' || left(coalesce(account_id, ''), 200)),
    available_at,
    id
) where state || '' in ('pending', 'in_flight');
