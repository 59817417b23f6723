-- Purpose: hears that a host committed a row, so that it is claimed before the next look.
-- Parameters: none.
-- Guard: a wake-up says only that looking is worth while. One that is lost, or that a pooler swallows, costs the time until
-- the next look and nothing else.

listen outboxd_wake;
