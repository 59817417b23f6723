"""What ending a task costs, as ratios within one run: SQL against the SDK from one connection, and 64 writers with wake-up
notifications against 64 without.

Usage: target/venv/bin/python tests/bench/enqueue_cost.py DSN [TASKS], on a migrated database that it may fill; pgbench
must be on PATH. Exits with 1 if a ratio is below what we promise (3, and 0.9). It measures no delivery.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from adcp.decisioning import PgTaskRegistry
from adcp.decisioning.pg import PgTaskWebhookOutbox
from adcp.webhook_sender import WebhookSender
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from psycopg_pool import AsyncConnectionPool

RESULT = {"media_buy_id": "mb_1", "packages": [{"package_id": "p1", "budget": 1000.5}]}
COMPLETER = """\
\\set nth :nth + 1
select outboxd.complete_task(task,
    '{"media_buy_id": "mb_1", "packages": [{"package_id": "p1", "budget": 1000.5}]}')
  from bench_tasks where nth = :nth;
"""
WRITER = """\
set outboxd.wake = '{wake}';
with issued as (
    select outboxd.issue_task('acc_1', 'create_media_buy', null, decode(repeat('00', 200), 'hex'),
                              decode(repeat('00', 12), 'hex'), outboxd.new_task_id(), 'https://buyer.example/h') as task
)
select outboxd.complete_task(task, '{{"media_buy_id":"mb_1"}}') from issued;
"""


def sender() -> WebhookSender:
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return WebhookSender.from_pem(pem, key_id="bench", alg="ed25519")


async def completions(dsn: str, tasks: int) -> float:
    """How many times as many completions SQL makes a second, the median of five turns."""
    async with AsyncConnectionPool(dsn, min_size=1, max_size=1) as pool:
        outbox = PgTaskWebhookOutbox(
            pool=pool, sender=sender(), encryption_key=os.urandom(32), delivery_retry_horizon_seconds=86_400
        )
        registry = PgTaskRegistry(pool=pool, task_webhook_outbox=outbox)

        async def issued() -> list[str]:
            return [
                await registry.issue(
                    account_id="acc_1",
                    task_type="create_media_buy",
                    webhook_url="https://buyer.example/h",
                    webhook_operation_id="op_1",
                )
                for _ in range(tasks)
            ]

        ratios = []
        for _ in range(5):
            ids = await issued()
            began = time.perf_counter()
            for task_id in ids:
                await registry.complete(task_id, RESULT)
            sdk = time.perf_counter() - began
            sql = await end_in_sql(pool, dsn, await issued())
            ratios.append(sdk / sql)
            print(f"one connection: SDK {tasks / sdk:.0f}/s, SQL {tasks / sql:.0f}/s, ratio {sdk / sql:.2f}")
        return statistics.median(ratios)


async def end_in_sql(pool: AsyncConnectionPool, dsn: str, ids: list[str]) -> float:
    """Seconds for all, by pgbench, since a Python client would measure itself."""
    async with pool.connection() as connection:
        await connection.execute("create table if not exists bench_tasks (nth integer primary key, task text)")
        await connection.execute("truncate bench_tasks")
        await connection.execute(
            "insert into bench_tasks select nth, task from unnest(%s::text[]) with ordinality as t(task, nth)", (ids,)
        )
    per_second = rate(dsn, COMPLETER, "-c", "1", "-t", str(len(ids)), "-M", "prepared", "-D", "nth=0")
    async with pool.connection() as connection:
        cursor = await connection.execute("select count(*) from bench_tasks join decisioning_tasks on task = task_id"
                                          " where state = 'completed'")
        assert await cursor.fetchone() == (len(ids),)
    return len(ids) / per_second


def rate(dsn: str, sql: str, *options: str) -> float:
    """Transactions a second."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write(sql)
        script.flush()
        command = ["pgbench", "-n", *options, "-f", script.name, dsn]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(re.search(r"tps = ([\d.]+)", output)[1])


def wake_ups(dsn: str) -> float:
    ratios = []
    for _ in range(3):
        off, on = (rate(dsn, WRITER.format(wake=wake), "-c", "64", "-j", "2", "-T", "6") for wake in ("off", "on"))
        ratios.append(on / off)
        print(f"64 writers: {off:.0f}/s without wake-ups, {on:.0f}/s with, ratio {on / off:.2f}")
    return statistics.median(ratios)


def main() -> None:
    dsn, tasks = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    completing, waking = asyncio.run(completions(dsn, tasks)), wake_ups(dsn)
    print(f"median ratios: completing {completing:.2f} (at least 3), wake-ups {waking:.2f} (at least 0.9)")
    sys.exit(completing < 3 or waking < 0.9)


main()
