-- Purpose: which of the places where something lies sealed exist here, and what the current user may do with each.
-- Parameters: $1 the outbox table.
-- Guard: reads the catalog only, so that it answers where a table or a column is missing: a host without a task registry
-- has no registrations.

with places (place, relation, read, written) as (
    values ('registrations', 'decisioning_tasks',
            array['task_id', 'account_id', 'task_type', 'webhook_registration', 'webhook_registration_nonce', 'created_at'],
            array['webhook_registration', 'webhook_registration_nonce']),
           ('outbox', $1::text,
            array['id', 'account_id', 'task_id', 'task_type', 'terminal_status', 'url', 'operation_id', 'idempotency_key',
                  'signing_scope_id', 'encrypted_body', 'envelope_nonce', 'state', 'available_at', 'lease_token',
                  'lease_expires_at', 'created_at'],
            array['encrypted_body', 'envelope_nonce']),
           ('signing_keys', $1 || '_scope_keys',
            array['scope', 'key_id', 'sealed', 'nonce', 'created_at'],
            array['sealed', 'nonce']),
           ('client_certificates', $1 || '_scopes',
            array['scope', 'client', 'client_nonce', 'created_at'],
            array['client', 'client_nonce'])
)
select p.place,
       count(a.attname) = cardinality(p.read) as present,
       coalesce(bool_and(has_column_privilege(a.attrelid, a.attnum, 'SELECT')), false) as readable,
       coalesce(bool_and(has_column_privilege(a.attrelid, a.attnum, 'UPDATE')) filter (where a.attname = any (p.written)),
                false) as writable
  from places as p
  left join pg_attribute as a
    on a.attrelid = to_regclass(quote_ident(p.relation))
   and a.attname = any (p.read)
   and not a.attisdropped
 group by p.place, p.read;
