"""A cluster of Postgres for a measurement: of its own, with the default durability, removed afterwards. As root its server runs as
`postgres`. PostgreSQL's programs are in /usr/lib/postgresql/15/bin, or PGBIN.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator

PROGRAMS = pathlib.Path(os.environ.get("PGBIN", "/usr/lib/postgresql/15/bin"))


def as_server(*command: object) -> list[str]:
    words = [str(word) for word in command]
    drop = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    return drop + words if os.geteuid() == 0 else words


@contextlib.contextmanager
def cluster(prefix: str, *settings: str) -> Iterator[str]:
    """Its connection string, with {} for the database's name."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir="/var/tmp"))
    data, server = directory / "data", None
    try:
        if os.geteuid() == 0:
            shutil.chown(directory, "postgres")
        initdb = as_server(PROGRAMS / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/")
        given = [word for setting in ("listen_addresses=", *settings) for word in ("-c", setting)]
        command = as_server(PROGRAMS / "postgres", "-D", data, "-k", directory, *given)
        server = subprocess.Popen(command, cwd="/", stderr=subprocess.DEVNULL)
        while subprocess.run([PROGRAMS / "pg_isready", "-q", "-h", directory], check=False).returncode:
            time.sleep(0.1)
        yield f"postgresql://postgres@/{{}}?host={directory}"
    finally:
        if server:
            server.send_signal(2)
            server.wait()
        shutil.rmtree(directory, ignore_errors=True)
