"""Imports the SDK once (30 CPU-seconds) and forks a process for every role that a test asks for.

A line on stdin, {"role": ..., "socket": ...}, starts one that answers on that unix socket; its process id is
printed. Does nothing with the SDK itself, so that every fork starts clean.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

import oracle
import receiver
import registry
import seller
from channel import converse

ROLES = {"oracle": oracle.commands, "receiver": receiver.commands, "registry": registry.commands, "seller": seller.commands}


def main() -> None:
    # Forks are reaped by the kernel: whoever kills one learns of its end by its socket.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            # stdout is the parent's; what the SDK prints is a diagnostic.
            os.dup2(2, 1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                asyncio.run(converse(order["socket"], ROLES[order["role"]]()))
            finally:
                os._exit(1)
        print(json.dumps({"pid": pid}), flush=True)


main()
