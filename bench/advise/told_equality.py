"""What pg_walinspect tells of WAL, against the decoder on the same WAL: which fields are lost?

One server writes WAL of all kinds; it is read from its pg_wal, and made again from what the server tells.
Both are read by the same Rust code. Prints a line for each field: equal, or by how much it differs.

    PYTHONPATH=. python bench/advise/told_equality.py 15 16.9 17.10 18.6 [wal_compression=pglz]

An argument with "=" is a setting of the servers. They need the extension, which the embedded ones lack.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

from bench.advise.servers import laboratory
from walproof.cli.told_wal import record_told
from walproof.postgres.cache import cache_folder
from walproof.postgres.cluster import Cluster
from walproof.wal import WalStats, stats
from walproof.wal.recording import read_recording
from walproof.wal.whatif import COMPRESSIONS, Target, simulate

SETTINGS = {
    "max_wal_size": "1GB", "min_wal_size": "256MB", "wal_keep_size": "2GB", "shared_buffers": "64MB",
    "wal_level": "logical", "track_commit_timestamp": "on", "autovacuum": "off",
}  # fmt: skip
INITDB = ("--wal-segsize=1",)
PREPARE = (
    "CREATE EXTENSION pg_walinspect",
    "CREATE TABLE t (id int PRIMARY KEY, n int, pad text)",
    "CREATE INDEX t_pad ON t USING hash (pad)",
    "CREATE TABLE k (id uuid PRIMARY KEY, words tsvector, at timestamptz)",
    "CREATE INDEX k_words ON k USING gin (words)",
    "CREATE INDEX k_at ON k USING brin (at)",
    "CREATE SEQUENCE s",
)
LOAD = (
    "INSERT INTO t SELECT i, i, repeat('x', i % 90) FROM generate_series(1, 6000) i",
    "INSERT INTO k SELECT md5(i::text)::uuid, to_tsvector('simple', 'a' || i || ' b c'), now() "
    "FROM generate_series(1, 1500) i",
    "CHECKPOINT",
    "UPDATE t SET n = n + 1 WHERE id % 3 = 0",
    "SET wal_compression = pglz",
    "CHECKPOINT",
    "UPDATE t SET n = n + 1 WHERE id % 7 = 0",
    "RESET wal_compression",
    "COPY t FROM PROGRAM 'seq -f \"%.0f\t1\ta\" 10000 12000'",
    "DELETE FROM t WHERE id % 5 = 0",
    "BEGIN; SAVEPOINT a; INSERT INTO t VALUES (-1, 1); SAVEPOINT b; INSERT INTO t VALUES (-2, 1); COMMIT",
    "BEGIN; DELETE FROM t WHERE id < 100; ROLLBACK",
    "VACUUM (FREEZE) t",
    "SELECT nextval('s') FROM generate_series(1, 100)",
    "CREATE TABLE gone AS SELECT * FROM t",
    "TRUNCATE gone",
    "DROP TABLE gone",
    "SELECT pg_switch_wal()",
    "INSERT INTO t SELECT i, i, repeat('x', i % 90) FROM generate_series(20000, 26000) i",
    "CHECKPOINT",
    "UPDATE t SET n = n + 1",
)
_IS_ASKED = """
    SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%pg_current_wal_flush_lsn%'"""


@dataclass(frozen=True, slots=True)
class Compared:
    """One field of both."""

    field: str
    decoded: Any
    told: Any

    @property
    def is_equal(self) -> bool:
        """Whether nothing is lost."""
        return bool(self.decoded == self.told)

    def __str__(self) -> str:
        if self.is_equal:
            return f"{self.field}: equal"
        if isinstance(self.decoded, list) and isinstance(self.decoded[0], (int, float)):
            pairs = list(zip(self.decoded, self.told, strict=True))
            return f"{self.field}: {max(abs(told / found - 1) for found, told in pairs):.4%} off at most"
        return f"{self.field}: {str(self.decoded)[:200]} decoded, {str(self.told)[:200]} told"


@contextmanager
def loading(cluster: Cluster) -> Iterator[None]:
    """Carry out ``LOAD`` once the server is asked for its WAL. Raises psycopg.Error if it failed."""
    failed: list[Exception] = []

    def load() -> None:
        try:
            with psycopg.connect(cluster.conninfo, autocommit=True) as session:
                while not session.execute(_IS_ASKED).fetchall():
                    time.sleep(0.05)
                for query in LOAD:
                    session.execute(query.encode())
        except psycopg.Error as error:
            failed.append(error)

    loader = threading.Thread(target=load)
    loader.start()
    yield
    loader.join()
    if failed:
        raise failed[0]


def recorded(cluster: Cluster, conninfo: str, folder: Path, seconds: float) -> None:
    """Have the load done while the server tells its WAL. The server has to have been prepared."""
    with loading(cluster):
        told = record_told(conninfo, seconds, folder, 1 << 30, lambda _passed, _bytes: None)
    print(f"told {told.records} records, {told.wal_bytes} bytes, ended because of {told.ended_because}")


def compared(pg_wal: Path, folder: Path) -> list[Compared]:
    """Every field of totals and simulations, from both readings."""
    made = read_recording(folder)
    start, end = made.began.lsn, made.ended.lsn
    totals = [stats(place, start=start, end=end) for place in (pg_wal, folder)]
    fields = [
        Compared(name, *(value(total) for total in totals))
        for name, value in (
            ("from and to", lambda total: (total.start, total.end)),
            ("records, bytes, images by operation", lambda total: total.rmgrs),
            ("by relation and fork", lambda total: total.relations),
            ("images", lambda total: total.images),
            ("commits and aborts, their times", _ends),
            ("bytes by what they are", lambda total: total.accounting),
            (
                "checkpoints, without their times",
                lambda total: [replace(c, at=0.0) for c in total.checkpoints],
            ),
            ("times of checkpoints", lambda total: tuple(c.at for c in total.checkpoints)),
        )
    ]
    targets = [
        Target(max_wal_size_mb=size, checkpoint_timeout_s=None, wal_compression=way, full_page_writes=full)
        for size in (2, 4, 8, 32, 1024) for way in COMPRESSIONS for full in (True, False)
    ]  # fmt: skip
    small = [replace(target, min_wal_size_mb=2) for target in targets]
    simulated = [simulate(place, targets=small, start=start, end=end) for place in (pg_wal, folder)]
    for way in COMPRESSIONS:
        chosen = [at for at, target in enumerate(small) if target.wal_compression == way]
        fields.append(
            Compared(
                f"simulated WAL, wal_compression {way}",
                *([found.outcomes[at].wal_bytes for at in chosen] for found in simulated),
            )
        )
    names = set(asdict(simulated[0].recorded))
    if any(side.clock != "transactions" for side in simulated):
        # Times are then those of files, or of the recording: not of the WAL.
        names -= {"first_time_us", "last_time_us", "longest_silence_us"}
    for name in sorted(names):
        fields.append(Compared(f"recorded.{name}", *(getattr(side.recorded, name) for side in simulated)))
    return fields


def _ends(total: WalStats) -> tuple[object, ...]:
    return total.commits, total.aborts, total.first_commit_at, total.last_commit_at


def main() -> None:
    """Compare on each version."""
    given = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
    for pg in (argument for argument in sys.argv[1:] if "=" not in argument):
        settings = {**SETTINGS, **given}
        with (
            laboratory(cache_folder("bench")) as made,
            made.server(pg, settings, *PREPARE, initdb=INITDB) as server,
        ):
            cluster = server.cluster
            with tempfile.TemporaryDirectory() as folder:
                target = Path(folder) / "told"
                recorded(cluster, cluster.conninfo, target, 20)
                for field in compared(cluster.data / "pg_wal", target):
                    print(f"{pg} {field}")


if __name__ == "__main__":
    main()
