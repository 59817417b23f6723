"""What an operator waits for on a large outbox: `outboxd list` and `why`, from their start to their end, also by the indexes that are
made for listing on demand, and how long dropping a day of attempts takes while others are written.

Usage: target/venv/bin/python tests/bench/looking.py [ROWS [ATTEMPTS]] (1,000,000 and 10,000,000: ten minutes, 12 GB in /var/tmp),
with PostgreSQL's programs in /usr/lib/postgresql/15/bin (or PGBIN), as root or as a user that may run them, and a release build.
It makes a cluster of its own with the default durability and removes it.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import threading
import time

import psycopg

from cluster import cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUTBOXD = ROOT / "target/release/outboxd"
TABLE = "adcp_task_webhook_outbox"
TURNS = 7
# One in a thousand is still open, as many were given up; every account and destination has as many as the others.
ROWS = f"""
insert into {TABLE} (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key, encrypted_body,
                     envelope_nonce, retry_horizon_seconds, state, attempt_count, first_attempt_at, retry_until, delivered_at,
                     last_http_status, last_error)
select 'task_' || n, 'acc_' || n %% 500, 'create_media_buy', 'completed', 'https://h' || n %% 500 || '.example/hooks/adcp', 'op_' || n,
       'whk_' || n, convert_to(repeat(md5(n::text), 33), 'UTF8'), substring(sha256(convert_to(n::text, 'UTF8')) for 12), 604800,
       case n %% 1000 when 0 then 'pending' when 1 then 'invalid' else 'delivered' end, 1, now(), now() + interval '7 days',
       case when n %% 1000 > 1 then now() end, case when n %% 1000 > 1 then 200 else 410 end,
       case when n %% 1000 = 1 then 'http_gone' end
  from generate_series(1, %s) as n"""
ATTEMPTS = f"""
insert into {TABLE}_attempts (fired_at, took_ms, outbox_id, attempt, status, http_status, payload_bytes, account_id, task_id, task_type,
                              idempotency_key, url, notification_type, notification_id)
select %s::timestamptz + n * interval '8 ms', 40, n, 1, 'success', 200, 1056, 'acc_' || n %% 500, 'task_' || n, 'create_media_buy',
       'whk_' || n, 'https://h' || n %% 500 || '.example/hooks/adcp', 'task.completed', 'ntf_' || n
  from generate_series(%s::bigint, %s::bigint) as n"""
LOOKS = [
    ["list"],
    ["list", "--state", "invalid"],
    ["list", "--state", "pending"],
    ["list", "--code", "http_gone"],
    ["list", "--account", "acc_7"],
    ["list", "--account", "acc_nobody"],
    ["list", "--destination", "h7.example"],
    ["list", "--destination", "nobody.example"],
    ["why", "whk_500000"],
    ["why", "task_500001"],
    ["why", "500002"],
]
BY_INDEX = [words for words in LOOKS if {"--account", "--destination"} & set(words)]
INDEXES = {"index_list_accounts": "list_account_idx", "index_list_destinations": "list_dest_idx"}


def index(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        for name, made in INDEXES.items():
            statement = (ROOT / f"sql/outbox/{name}.sql").read_text()
            began = time.monotonic()
            session.execute(re.sub(r':"outbox(\w*)"', rf'"{TABLE}\1"', statement))
            took = time.monotonic() - began
            size = session.execute(f"select pg_relation_size('{TABLE}_{made}') / 1048576").fetchone()[0]
            print(f"{made} made in {took:.1f} s, {size} MB", flush=True)


def look(dsn: str, looks: list[list[str]]) -> None:
    for words in looks:
        taken = []
        for _ in range(TURNS):
            began = time.monotonic()
            command = [OUTBOXD, *words, "--set", f"database.url={dsn}"]
            done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            taken.append((time.monotonic() - began) * 1000)
            assert done.returncode in (0, 66), words
        taken.sort()
        print(f"{' '.join(words):<34} {taken[TURNS // 2]:8.1f} ms  ({taken[0]:.1f}-{taken[-1]:.1f})", flush=True)


def drop_a_day(dsn: str, attempts: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        day = session.execute("select date_trunc('day', now() - interval '3 days')").fetchone()[0]
        name = f"{TABLE}_attempts_{day:%Y%m%d}"
        session.execute(
            f"create table {name} partition of {TABLE}_attempts for values from ('{day}') to ('{day}'::timestamptz + interval '1 day')"
        )
        step = 1_000_000
        for first in range(1, attempts + 1, step):
            session.execute(ATTEMPTS, (day, first, min(first + step - 1, attempts)))
        count = session.execute(f"select count(*) from {name}").fetchone()[0]
        # As it was long before its time came: autovacuum would hold the day for minutes now.
        session.execute(f"vacuum (freeze, analyze) {name}")
        longest, stop = [0.0], threading.Event()

        def write() -> None:
            with psycopg.connect(dsn, autocommit=True) as writer:
                nth = attempts
                while not stop.is_set():
                    nth += 1
                    began = time.monotonic()
                    writer.execute(ATTEMPTS.replace("%s::timestamptz + n * interval '8 ms'", "now()"), (nth, nth))
                    longest[0] = max(longest[0], time.monotonic() - began)

        writer = threading.Thread(target=write)
        writer.start()
        time.sleep(2)
        began = time.monotonic()
        asked = f"select made, dropped, busy from outboxd.keep_attempts('{TABLE}_attempts'::regclass, -1, 86400)"
        answer = session.execute(asked).fetchone()
        took = time.monotonic() - began
        stop.set()
        writer.join()
        assert answer == (0, 1, False), answer
        print(f"a day of {count} attempts dropped in {took:.2f} s; the longest insert beside it took {longest[0] * 1000:.0f} ms")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    attempts = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    with cluster("outboxd-looking-", "max_wal_size=8GB") as databases:
        dsn = databases.format("postgres")
        subprocess.run([OUTBOXD, "migrate", "--set", f"database.url={dsn}"], check=True, stdout=subprocess.DEVNULL)
        with psycopg.connect(dsn, autocommit=True) as session:
            session.execute(ROWS, (rows,))
            session.execute(f"vacuum analyze {TABLE}")
        print(f"{rows} rows, medians of {TURNS} (least-most), from the command's start to its end")
        look(dsn, LOOKS)
        index(dsn)
        look(dsn, BY_INDEX)
        drop_a_day(dsn, attempts)


main()
