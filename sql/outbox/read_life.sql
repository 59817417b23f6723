-- Purpose: one row and all that is known of where it is in its life, for a person who asks why.
-- Parameters: $1 its id or null, $2 its task or its idempotency key or null.
-- Guard: reads only, by three unique indexes. Nothing sealed is read, and of the URL the destination alone. A text may be one
-- row's task and another's key: the task goes first.

select o.id::bigint as id,
       o.task_id,
       o.account_id,
       o.task_type,
       o.terminal_status,
       o.idempotency_key,
       o.signing_scope_id,
       left(rtrim(replace(lower(split_part(split_part(split_part(
           coalesce(o.url, '') collate "C", '/', 3), '?', 1), '#', 1)) || '/', ':443/', ''), '/'), 260) as destination,
       case when o.state = 'in_flight' and o.lease_token is null then 'pending' else o.state end as state,
       coalesce(o.lease_expires_at = timestamptz '9999-01-01 00:00:00+00', false) as composed,
       o.attempt_count,
       extract(epoch from statement_timestamp() - o.created_at)::double precision as age,
       extract(epoch from statement_timestamp() - o.updated_at)::double precision as changed_ago,
       extract(epoch from statement_timestamp() - o.first_attempt_at)::double precision as begun_ago,
       extract(epoch from o.retry_until - statement_timestamp())::double precision as horizon_in,
       -- Where another worker holds it, its lease alone says until when.
       extract(epoch from case when o.state = 'in_flight' and o.lease_token is not null
                                    and o.lease_expires_at < timestamptz '9999-01-01 00:00:00+00'
                               then o.lease_expires_at else o.available_at end - statement_timestamp())::double precision as next_in,
       extract(epoch from statement_timestamp() - o.delivered_at)::double precision as delivered_ago,
       o.last_http_status,
       o.last_error
  from :"outbox" as o
 where o.id = any (array(select $1::bigint
                          union all
                         select id from :"outbox" where task_id = $2::text
                          union all
                         select id from :"outbox" where idempotency_key = $2::text))
 order by o.task_id = $2::text desc, o.id
 limit 1;
