-- Purpose: takes a key away that nobody may use or believe any more.
-- Parameters: $1 scope, $2 key id.
-- Guard: it is gone at once, from signing and from the key sets alike; what it signed can no longer be verified.

delete from :"outbox_scope_keys" as k
 where k.scope = $1::text
   and k.key_id = $2::text
returning k.key_id;
