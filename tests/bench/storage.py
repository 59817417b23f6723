"""What claiming and settling a row writes, by the outbox's fillfactor: WAL bytes a delivery and the table's size, in the flow
of one batch in and one out, and from a backlog after a checkpoint.

Usage: target/venv/bin/python tests/bench/storage.py [ROWS [FILLFACTOR ...]], with PostgreSQL's programs in
/usr/lib/postgresql/15/bin (or PGBIN), as root or as a user that may run them, and target/debug/outboxd for the migrations. It
makes a cluster of its own with the default durability and removes it. The statements are those of sql/outbox. Nothing is
posted.
"""

from __future__ import annotations

import pathlib
import random
import re
import secrets
import subprocess
import sys
import time

import psycopg

from cluster import cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = "adcp_task_webhook_outbox"
BATCH = 100
# Ciphertext is incompressible, so these are blocks of 32 random bytes.
BODIES = [320, 1056, 1600]
INSERT = f"""
insert into {TABLE} (task_id, account_id, task_type, terminal_status, url, operation_id, idempotency_key, encrypted_body,
                     envelope_nonce, retry_horizon_seconds)
select gen_random_uuid()::text, 'acc_' || n %% 50, 'create_media_buy', 'completed',
       'https://h' || n %% 50 || '.example/hooks/adcp', 'op_' || n, 'whk_' || gen_random_uuid(),
       (select string_agg(sha256(convert_to(n || ':' || block || random(), 'UTF8')), '') from generate_series(1, %s) as block),
       substring(sha256(convert_to(n::text, 'UTF8')) for 12), 86400
  from generate_series(1, %s) as n"""
SESSION = "set enable_seqscan = off; set enable_bitmapscan = off; set plan_cache_mode = force_custom_plan; set jit = off"


class Outbox:
    """One session of a daemon, by the statements that it sends."""

    def __init__(self, dsn: str, fillfactor: int) -> None:
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
        self.connection.execute(f"alter table {TABLE} set (fillfactor = {fillfactor})")
        self.connection.execute(SESSION)
        self.statements = {name: self.read(name) for name in ("claim_due", "settle_delivered")}

    @staticmethod
    def read(name: str) -> str:
        text = (ROOT / f"sql/outbox/{name}.sql").read_text().replace(':"outbox"', TABLE)
        text = re.sub(r"--.*", "", text).replace("%", "%%")
        return re.sub(r"\$(\d+)", r"%(p\1)s", text)

    def one(self, sql: str) -> tuple:
        row = self.connection.execute(sql).fetchone()
        assert row is not None
        return row

    def wal(self) -> int:
        return int(self.one("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn")[0])

    def insert(self, rows: int, body: int) -> None:
        self.connection.execute(INSERT, (body // 32, rows))

    def claim(self) -> list[tuple[int, str]]:
        token = secrets.token_hex(16)
        given = {"p1": BATCH, "p2": 1 << 30, "p3": token, "p4": 60.0, "p5": [], "p6": [], "p7": 1 << 20, "p8": [], "p9": [],
                 "p10": None}
        return [(row[0], token) for row in self.connection.execute(self.statements["claim_due"], given)]

    def settle(self, rows: list[tuple[int, str]]) -> None:
        ids, tokens = zip(*rows)
        given = {"p1": list(ids), "p2": list(tokens), "p3": [200] * len(rows)}
        done = self.connection.execute(self.statements["settle_delivered"], given).fetchall()
        assert len(done) == len(rows), "every lease is held"

    def deliver(self, rows: int) -> None:
        """Four batches in flight, which end in any order."""
        held: list[tuple[int, str]] = []
        while rows:
            while len(held) < 4 * BATCH and (claimed := self.claim()):
                held += claimed
            random.shuffle(held)
            self.settle(held[:BATCH])
            rows -= len(held[:BATCH])
            held = held[BATCH:]

    def backlog(self, rows: int, body: int) -> float:
        self.insert(rows, body)
        self.connection.execute(f"vacuum analyze {TABLE}")
        self.connection.execute("checkpoint")
        before = self.wal()
        self.deliver(rows)
        return (self.wal() - before) / rows

    def flow(self, rows: int, body: int) -> float:
        written = 0
        for _ in range(rows // BATCH):
            self.insert(BATCH, body)
            before = self.wal()
            self.settle(self.claim())
            written += self.wal() - before
        return written / rows

    def size(self) -> int:
        return int(self.one(f"select pg_relation_size('{TABLE}') / 1024")[0])


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 6000
    factors = [int(word) for word in sys.argv[2:]] or [100, 70, 50, 40]
    names = iter(range(1000))
    # A checkpoint in the middle of a run would write whole pages once more for one fillfactor and not for another.
    settings = ["max_wal_size=8GB", "checkpoint_timeout=30min", "autovacuum=off"]
    with cluster("outboxd-storage-", *settings) as dsn:
        with psycopg.connect(dsn.format("postgres"), autocommit=True) as admin:
            admin.execute("create database template")
            migrate = [ROOT / "target/debug/outboxd", "migrate", "--set", f"database.url={dsn.format('template')}"]
            subprocess.run(migrate, check=True, stdout=subprocess.DEVNULL)
            print(f"{'body':>5} {'fillfactor':>10} {'flow: WAL B':>12} {'table KiB':>10} {'backlog: WAL B':>15} {'table KiB':>10}")
            for body in BODIES:
                for factor in factors:
                    figures: list[float] = []
                    for scenario in (Outbox.flow, Outbox.backlog):
                        name = f"run_{next(names)}"
                        admin.execute(f"create database {name} template template")
                        outbox = Outbox(dsn.format(name), factor)
                        figures += [scenario(outbox, rows, body), outbox.size()]
                        outbox.connection.close()
                    print("{:5} {:10} {:12.0f} {:10.0f} {:15.0f} {:10.0f}".format(body, factor, *figures), flush=True)


main()
