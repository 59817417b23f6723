-- Purpose: keeps one authenticated delivery, or says why not; what it returns is listed with the function.
-- Parameters: of the signature: $1 key id, $2 nonce, $3 Unix seconds until which it is kept (null without a signature),
-- $4 whether to count the nonces, $5 and $6 the caps for one key and for all; of the delivery: $7 sender, $8 idempotency
-- key (null: there is none to keep), $9 payload hash, $10 task hash, $11 hash of the task's end, $12 body, $13 attempts.
-- Guard: one transaction, committed before the answer comes; both unique indexes decide races.

select outboxd._accept_webhook($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) as outcome;
