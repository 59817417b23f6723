-- Purpose: requeues sealed rows past their horizon, with bodies that were sealed again under fresh idempotency keys.
-- Parameters: $1 filter as JSON; arrays of the same length: $2 ids, $3 the nonces that were read, $4 ciphertexts, $5 their
-- nonces, $6 idempotency keys; $7 how far the run will have come, $8 run, $9 actor, $10 reason.
-- Guard: only what is finished, past its horizon and still as it was read.

select outboxd._renew_deliveries($1::text::jsonb, $2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::text[], $7::bigint,
                                 $8::text, $9::text, $10::text) as renewed;
