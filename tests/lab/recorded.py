"""Servers that are recorded, and what fills them, for tests of ``walproof wal capture``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from walproof.facts import Install
from walproof.lab.capture import Beginning, CaptureOrder, capture
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.wal.recording import Recording

SETTINGS = {"fsync": "off", "max_wal_size": "32MB", "min_wal_size": "2MB", "wal_level": "replica"}


@contextmanager
def recorded_server(
    install: Install, workspace: Workspace, settings: Mapping[str, str] = SETTINGS
) -> Iterator[Cluster]:
    """A server with segments of 1 MB, a table, and a user that may record it."""
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, install, ("--wal-segsize=1",)), folder, flush=False)
    made = Cluster(install, workspace, folder)
    made.start(settings)
    try:
        with made.connect() as connection:
            prepare(connection)
        yield made
    finally:
        made.stop("immediate")


def prepare(connection: psycopg.Connection[Any]) -> None:
    """The role and the table."""
    connection.execute("CREATE ROLE recorder LOGIN REPLICATION PASSWORD 'secret'")
    connection.execute("GRANT pg_monitor TO recorder")
    connection.execute("CREATE TABLE t (i int, s text)")


def conninfo_of(cluster: Cluster, user: str = "recorder") -> str:
    """How that user connects."""
    return f"host={cluster.sockets} port={cluster.port} user={user} dbname=postgres password=secret"


def slots(connection: psycopg.Connection[Any]) -> list[tuple[bool, bool]]:
    """Of every slot whether it is temporary, and active."""
    return connection.execute("SELECT temporary, active FROM pg_replication_slots").fetchall()


def is_streaming(connection: psycopg.Connection[Any]) -> bool:
    """Whether somebody streams who has received all that there is."""
    return bool(connection.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'").fetchall())


def wait_for(is_so: Callable[[], bool], patience_s: float, what: str = "it") -> float:
    """Return the seconds that passed until it is so. Fails when it does not come to be."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() - began < patience_s, f"{what} took more than {patience_s} s"
        time.sleep(0.05)
    return time.monotonic() - began


def take(
    order: CaptureOrder,
    is_over: Callable[[], bool] = lambda: False,
    watch: Callable[[float, int, int], None] = lambda *_: None,
    tell: Callable[[Beginning], None] = lambda _: None,
) -> Recording:
    """Capture, with what a test does not care for left out."""
    return capture(order, watch, is_over, tell)


class Writer:
    """Context manager: writes WAL, much more than max_wal_size, until it is told to stop."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Any]]) -> None:
        self._connect = connect
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        with self._connect() as connection:
            while not self._ending.is_set():
                connection.execute("INSERT INTO t SELECT g, repeat('x', 300) FROM generate_series(1, 3000) g")
                connection.execute("CHECKPOINT")

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self._thread.join(30)


def segments(folder: Path) -> list[Path]:
    """The whole segments of a recording, in order."""
    return sorted(path for path in folder.iterdir() if len(path.name) == 24)
