"""The SDK's own worker, so many processes of so many tasks, over the rows that are measured.

Imports the SDK once (30 CPU-seconds) and forks the processes that an order on its standard input asks for; their process
ids are printed, and an empty order kills them. Changes one thing of the SDK: `adcp.signing.jwks.validate_resolved_ip`,
which refuses loopback by design, lets every address pass. The receiver is on loopback.
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


async def work(order: dict[str, Any]) -> None:
    # Both are read for every connection: by OpenSSL, and by the SDK's HTTP client.
    if order["ca"] is not None:
        os.environ["SSL_CERT_FILE"] = order["ca"]
    adcp.signing.jwks.validate_resolved_ip = lambda *_args, **_kwargs: None
    pool = AsyncConnectionPool(order["database"], min_size=1, max_size=order["tasks"] + 1, open=False)
    await pool.open()
    with open(order["pem"], "rb") as pem:
        sender = WebhookSender.from_pem(pem.read(), key_id=order["kid"], alg="ed25519")
    outbox = PgTaskWebhookOutbox(
        pool=pool,
        sender=sender,
        encryption_key=bytes.fromhex(order["key"]),
        delivery_retry_horizon_seconds=86_400,
    )
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
        try:
            asyncio.run(work(order))
        finally:
            os._exit(1)
    return pid


def main() -> None:
    print(json.dumps([]), flush=True)
    pids: list[int] = []
    for line in sys.stdin:
        order = json.loads(line)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        pids = [fork(order) for _ in range(order["processes"])] if order else []
        print(json.dumps(pids), flush=True)


main()
