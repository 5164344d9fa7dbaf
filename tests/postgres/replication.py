"""Servers that standbys are made of, or that are looked at, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from walproof.facts import Install
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.units import Lsn

# Flushes of the machine's disk are no part of what is tested.
SETTINGS = {"fsync": "off", "autovacuum": "off", "max_wal_senders": "10", "wal_keep_size": "0"}


@contextmanager
def running_primary(
    install: Install, workspace: Workspace, settings: Mapping[str, str] = SETTINGS, *, is_new: bool = False
) -> Iterator[Cluster]:
    """``is_new``: with a system identifier of its own, where clones of a template share theirs."""
    folder = workspace.make_folder("primary")
    primary = Cluster(install, workspace, folder)
    if is_new:
        primary.init()
    else:
        templates.clone(templates.prepare_empty(workspace, install, ()), folder, flush=False)
    primary.start(settings)
    try:
        yield primary
    finally:
        primary.stop("immediate")


def wait_until(is_so: Callable[[], bool], patience_s: float = 60.0) -> None:
    """Return when it is so. Fails when it does not come to be."""
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)


def query(cluster: Cluster, sql: str) -> str:
    """The first column of the first row."""
    with cluster.connect() as connection:
        row = connection.execute(sql.encode()).fetchone()
    assert row is not None
    return str(row[0])


def run(cluster: Cluster, *statements: str) -> Lsn:
    """Run statements, each in its own transaction; the end of the flushed WAL afterwards."""
    with cluster.connect() as connection:
        for statement in statements:
            connection.execute(statement.encode())
    return Lsn.parse(query(cluster, "SELECT pg_current_wal_flush_lsn()"))
