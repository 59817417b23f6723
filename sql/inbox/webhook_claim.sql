-- Purpose: leases messages for forwarding.
-- Parameters: $1 the worker's name, $2 at most so many, $3 the lease in seconds.
-- Guard: the function's: skip-locked, and every lease has a token of its own.

select id, sender, idempotency_key, body, attempt, lease_token
  from outboxd.claim_webhooks($1, $2, make_interval(secs => $3));
