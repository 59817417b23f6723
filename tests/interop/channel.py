"""One conversation with the tests: a JSON command per line in, a JSON answer per line out.

Knows no command; each role brings its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

Command = Callable[..., Awaitable[Any]]

# A line holds every body of a batch; asyncio's default limit is 64 KiB.
LONGEST_LINE = 256 * 1024 * 1024


async def converse(socket: str, commands: dict[str, Command]) -> None:
    """Answers commands in turn until the tests hang up, then ends the process with all it was doing."""
    reader, writer = await asyncio.open_unix_connection(socket, limit=LONGEST_LINE)
    while line := await reader.readline():
        request = json.loads(line)
        try:
            answer = {"ok": await commands[request.pop("do")](**request)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
    os._exit(0)
