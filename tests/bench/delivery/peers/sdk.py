"""The SDK's own worker, so many processes of so many tasks, over the rows that are measured.

Imports the SDK once (30 CPU-seconds) and forks the processes that an order on its standard input asks for; their process
ids are printed, and the next order kills them. An order may ask for the outbox's table instead. Changes one thing of the SDK:
`adcp.signing.jwks.validate_resolved_ip`, which refuses loopback by design, lets every address pass. The receiver is on loopback.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
from typing import Any

import adcp.signing.jwks
from adcp.decisioning.pg import PgTaskWebhookOutbox
from adcp.webhook_sender import WebhookSender
from psycopg_pool import AsyncConnectionPool

PR_SET_PDEATHSIG = 1


async def open_outbox(order: dict[str, Any]) -> PgTaskWebhookOutbox:
    # Both are read for every connection: by OpenSSL, and by the SDK's HTTP client.
    if order["ca"] is not None:
        os.environ["SSL_CERT_FILE"] = order["ca"]
    adcp.signing.jwks.validate_resolved_ip = lambda *_args, **_kwargs: None
    pool = AsyncConnectionPool(order["database"], min_size=1, max_size=order["tasks"] + 1, open=False)
    await pool.open()
    with open(order["pem"], "rb") as pem:
        sender = WebhookSender.from_pem(pem.read(), key_id=order["kid"], alg="ed25519")
    return PgTaskWebhookOutbox(
        pool=pool,
        sender=sender,
        encryption_key=bytes.fromhex(order["key"]),
        delivery_retry_horizon_seconds=86_400,
    )


async def create_schema(order: dict[str, Any]) -> None:
    await (await open_outbox(order)).create_schema()


async def work(order: dict[str, Any]) -> None:
    outbox = await open_outbox(order)
    # The poll interval is the SDK's own default.
    await asyncio.gather(*(outbox.run_worker() for _ in range(order["tasks"])))


def fork(order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # stdout is the parent's; what the SDK prints is a diagnostic.
        os.dup2(2, 1)
        # The first collection copies every page that is shared with the parent; it comes before the measurement.
        gc.collect()
        status = 1
        try:
            asyncio.run((create_schema if order.get("create_schema") else work)(order))
            status = 0
        finally:
            os._exit(status)
    return pid


def main() -> None:
    print(json.dumps([]), flush=True)
    pids: list[int] = []
    for line in sys.stdin:
        order = json.loads(line)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        pids = []
        if order.get("create_schema"):
            assert os.waitpid(fork(order), 0)[1] == 0, "the SDK could not make its table"
        elif order:
            pids = [fork(order) for _ in range(order["processes"])]
        print(json.dumps(pids), flush=True)


main()
