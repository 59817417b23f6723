-- Purpose: what the migrations make and this database lacks, by the version that makes it.
-- Parameters: $1 the outbox table.
-- Guard: reads the catalog only, and looks at objects instead of the ledger: a host that applied the printed
-- migrations with its own tool has no ledger.

with wanted(version, kind, relation, name) as (
    values (1, 'table', $1::text, null),
           (1, 'column', $1, 'signing_scope_id'),
           (1, 'index', $1, $1 || '_work_idx'),
           (1, 'index', $1, $1 || '_retry_until_idx'),
           (2, 'table', 'decisioning_tasks', null),
           (2, 'column', 'decisioning_tasks', 'request_context'),
           (2, 'column', 'decisioning_tasks', 'webhook_registration'),
           (2, 'column', 'decisioning_tasks', 'webhook_registration_nonce'),
           (2, 'index', 'decisioning_tasks', 'decisioning_tasks_account_idx'),
           (3, 'index', $1, $1 || '_open_rows_idx'),
           (4, 'table', $1 || '_composed', null),
           (4, 'table', $1 || '_hints', null),
           (4, 'index', 'decisioning_tasks', 'decisioning_tasks_account_created_idx'),
           (5, 'table', 'adcp_buyer_agents', null),
           (5, 'index', 'adcp_buyer_agents', 'adcp_buyer_agents_api_key_id_uidx'),
           (5, 'index', 'adcp_buyer_agents', 'adcp_buyer_agents_status_idx'),
           (6, 'table', 'adcp_proposal_drafts', null),
           (6, 'index', 'adcp_proposal_drafts', 'adcp_proposal_drafts_media_buy_idx'),
           (6, 'index', 'adcp_proposal_drafts', 'adcp_proposal_drafts_expires_idx'),
           (7, 'table', 'cms_terminal_notification_inbox', null),
           (7, 'table', 'cms_terminal_notification_processing', null),
           (7, 'index', 'cms_terminal_notification_processing', 'cms_terminal_notification_processing_due'),
           (7, 'index', 'cms_terminal_notification_processing', 'cms_terminal_notification_processing_leased'),
           (7, 'index', 'cms_terminal_notification_processing', 'cms_terminal_notification_processing_status'),
           (7, 'table', 'cms_terminal_notification_quarantine', null),
           (7, 'view', 'cms_terminal_notifications', null),
           (8, 'table', 'adcp_webhook_inbox', null),
           (8, 'index', 'adcp_webhook_inbox', 'adcp_webhook_inbox_task_idx'),
           (8, 'index', 'adcp_webhook_inbox', 'adcp_webhook_inbox_due_idx'),
           (8, 'index', 'adcp_webhook_inbox', 'adcp_webhook_inbox_lease_idx'),
           (8, 'index', 'adcp_webhook_inbox', 'adcp_webhook_inbox_settled_idx'),
           (8, 'index', 'adcp_webhook_inbox', 'adcp_webhook_inbox_failed_idx'),
           (8, 'table', 'adcp_webhook_inbox_nonces', null),
           (8, 'index', 'adcp_webhook_inbox_nonces', 'adcp_webhook_inbox_nonces_expires_idx'),
           (9, 'table', $1 || '_replicas', null),
           (9, 'table', $1 || '_keys', null),
           (10, 'table', $1 || '_scopes', null),
           (10, 'table', $1 || '_scope_keys', null),
           (10, 'index', $1 || '_scope_keys', $1 || '_scope_keys_idx'),
           (11, 'index', $1, $1 || '_destination_idx'),
           (12, 'table', $1 || '_parked', null),
           (13, 'storage parameters', $1, null),
           (14, 'table', $1 || '_attempts', null),
           (14, 'table', $1 || '_attempts_default', null),
           (14, 'index', $1 || '_attempts', $1 || '_attempts_key_idx'),
           (14, 'index', $1 || '_attempts', $1 || '_attempts_acc_idx'),
           (14, 'index', $1 || '_attempts', $1 || '_attempts_at_idx'),
           (15, 'table', $1 || '_audit', null),
           (15, 'index', $1 || '_audit', $1 || '_audit_run_idx'),
           (15, 'table', $1 || '_caps', null),
           (17, 'index', $1, $1 || '_ended_idx')
)
select version,
       kind || ' ' || coalesce(name, relation)
           || case when kind = 'index' and to_regclass(quote_ident(name)) is not null
              then ' (there, but its build was not finished)' else '' end as object
  from wanted
 where case kind
       when 'view' then to_regclass(quote_ident(relation)) is null
       -- Any values: an operator may know better.
       when 'storage parameters' then not exists (select from pg_class, unnest(reloptions) as parameter
                                                   where pg_class.oid = to_regclass(quote_ident(relation))
                                                     and parameter like 'fillfactor=%')
       when 'table' then to_regclass(quote_ident(relation)) is null
       when 'column' then not exists (select from pg_attribute
                                       where attrelid = to_regclass(quote_ident(relation))
                                         and attname = name
                                         and not attisdropped)
       -- An index that a failed CREATE INDEX CONCURRENTLY left behind is there, but not valid.
       when 'index' then not exists (select from pg_index
                                       join pg_class on pg_class.oid = indexrelid
                                      where indrelid = to_regclass(quote_ident(relation))
                                        and relname = name
                                        and indisvalid)
       end
 order by version, object;
