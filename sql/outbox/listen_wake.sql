-- Purpose: hears from now on that a host committed a row, so that it is claimed before the next look; and, on a channel of
-- this session's own, what proves that anything is heard.
-- Parameters: none.
-- Guard: a wake-up says only that looking is worth while. One that is lost costs the time until the next look and nothing
-- else. No session listens to another's channel, so that no proof wakes anybody.

do $do$
begin
    listen outboxd_wake;
    execute format('listen %I', 'outboxd_ear_' || pg_backend_pid());
end
$do$;
