-- The attempts to deliver: what the host returns of them as `webhook_activity`, and how their partitions come and go.

-- Records of one account, newest first, in the exact form of AdCP's webhook_activity. That form demands a notification type, which
-- payloads of delivery reports have and those that announce a task's end do not: these are left out, unless the host says
-- under which type it tells of them.
create or replace function outboxd.webhook_activity(
    p_account_id text,
    p_limit integer default 50,
    p_task_id text default null,
    p_notification_type text default null
) returns setof jsonb
    language sql stable security definer
as $$
    select jsonb_build_object(
               'idempotency_key', a.idempotency_key,
               'fired_at', to_char(a.fired_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
               'completed_at', to_char((a.fired_at + a.took_ms * interval '1 millisecond') at time zone 'UTC',
                                       'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
               'notification_type', coalesce(a.notification_type, p_notification_type),
               'attempt', a.attempt,
               'status', a.status,
               'url', a.url,
               'http_status_code', case when a.status in ('success', 'failed') then a.http_status end,
               'response_time_ms', case when a.status in ('success', 'failed') then a.took_ms end,
               'error_message', case when a.status <> 'success' then a.code end)
           || jsonb_strip_nulls(jsonb_build_object(
               'notification_id', a.notification_id,
               'sequence_number', a.sequence_number,
               'payload_size_bytes', a.payload_bytes))
      from :"outbox_attempts" as a
     where a.account_id = p_account_id
       and (p_task_id is null or a.task_id = p_task_id)
       -- What never left is no fire.
       and a.status is not null
       and coalesce(a.notification_type, p_notification_type) is not null
     order by a.fired_at desc
     limit least(greatest(p_limit, 0), 200)
$$;
comment on function outboxd.webhook_activity(text, integer, text, text) is
    'The newest attempts to deliver to one account (200 at most), each as a record of AdCP''s webhook_activity. No errors.';

-- Makes the days from today on, and drops one that ended longer ago than attempts are kept: one at a time, so that no lock is
-- held for longer than one takes. Where a lock is not free at once, or another replica is at it, the rest is left for the next
-- time. A definer's right, so that a daemon needs none on the schema; what it can be led to is to drop days of attempts.
create or replace function outboxd.keep_attempts(
    p_attempts regclass,
    p_days_ahead integer,
    p_keep_seconds double precision
) returns table (made integer, dropped integer, busy boolean)
    language plpgsql volatile security definer
as $$
declare
    home text;
    stem text;
    fallback text;
    today date := (clock_timestamp() at time zone 'UTC')::date;
    day date;
    name text;
    day_from text;
    day_to text;
    patience text := current_setting('lock_timeout');
begin
    select format('%I', n.nspname), c.relname || '_' into home, stem
      from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
     where c.oid = p_attempts and c.relkind = 'p' and c.relname ~ '_attempts$';
    if not found then
        raise exception using
            errcode = '22023',
            message = format('%s holds no attempts', p_attempts),
            hint = 'Pass the partitioned table that a migration made beside the outbox.';
    end if;
    fallback := format('%s.%I', home, stem || 'default');
    made := 0;
    dropped := 0;
    busy := not pg_try_advisory_xact_lock(hashtextextended('outboxd.attempts', p_attempts::oid::bigint));
    if busy then
        return next;
        return;
    end if;
    perform set_config('lock_timeout', '500ms', true);
    for day in select today + n from generate_series(0, p_days_ahead) as n loop
        name := stem || to_char(day, 'YYYYMMDD');
        continue when to_regclass(format('%s.%I', home, name)) is not null;
        day_from := day || ' 00:00:00+00';
        day_to := (day + 1) || ' 00:00:00+00';
        begin
            -- Attached and not made in place, since that would wait for everybody who writes, and make them wait.
            execute format('create table %s.%I (like %s including all)', home, name, p_attempts);
            execute format('lock table %s in access exclusive mode', fallback);
            execute format('with moved as (delete from %s where fired_at >= %L and fired_at < %L returning *) '
                           'insert into %s.%I select * from moved', fallback, day_from, day_to, home, name);
            execute format('alter table %s attach partition %s.%I for values from (%L) to (%L)',
                           p_attempts, home, name, day_from, day_to);
            made := made + 1;
        exception
            when lock_not_available or deadlock_detected then busy := true;
        end;
    end loop;
    for name in
        select c.relname
          from pg_inherits as i
          join pg_class as c on c.oid = i.inhrelid
         where i.inhparent = p_attempts
           and starts_with(c.relname, stem)
           and substr(c.relname, length(stem) + 1) ~ '^[0-9]{8}$'
           and to_date(substr(c.relname, length(stem) + 1), 'YYYYMMDD') + 1
               < (clock_timestamp() - p_keep_seconds * interval '1 second') at time zone 'UTC'
         order by c.relname
         limit 1
    loop
        begin
            execute format('drop table %s.%I', home, name);
            dropped := dropped + 1;
        exception
            when lock_not_available or deadlock_detected then busy := true;
        end;
    end loop;
    execute format('delete from %s where fired_at < clock_timestamp() - make_interval(secs => %L)', fallback, p_keep_seconds);
    perform set_config('lock_timeout', patience, true);
    return next;
end
$$;
comment on function outboxd.keep_attempts(regclass, integer, double precision) is
    'Makes the partitions of the coming days and drops one that is over; daemons call it. Errors: 22023.';

do $do$
begin
    perform made from outboxd.keep_attempts(':"outbox_attempts"', 3, 1e9);
end
$do$;
