-- Purpose: the index by which list_by_account finds the rows of an account that has few among many.
-- Parameters: none.
-- Guard: printed for an operator to run, and run by nobody else: it serves this one question, and each delivery writes two entries
-- of it besides the one that the insert writes. It blocks no writer. Accounts are told apart by 200 characters, since no insert may
-- fail because an entry does not fit into an index page, and ordered by their bytes, since the order of a language may change
-- with the system beneath. The statement that lists spells the same expression.

create index concurrently if not exists :"outbox_list_account_idx" on :"outbox" (
    (left(coalesce(account_id, ''), 200) collate "C"),
    id
);
