"""A throw-away server, badly configured and under load, for a first look at advice.

Two sessions update rows at random and insert rows with random keys. Everything is gone at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from walproof.facts import Install
from walproof.lab.failure import as_failure
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user

SETTINGS = {
    "shared_buffers": "128MB",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "max_replication_slots": "4",
    "max_wal_size": "32MB",
    "min_wal_size": "32MB",
    "checkpoint_timeout": "30s",
    "checkpoint_completion_target": "0.5",
    "wal_compression": "off",
    "log_checkpoints": "off",
    "commit_delay": "1000",
    "commit_siblings": "1",
}
"""Each of these settings has been somebody's default or advice."""
_ROWS = 150_000
_SETUP = (
    "CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL, state text NOT NULL, note text)",
    f"INSERT INTO orders SELECT i, i % 5000, 'new', repeat('x', 120) FROM generate_series(1, {_ROWS}) i",
    "CREATE INDEX orders_customer ON orders (customer)",
    "CREATE TABLE events (id uuid PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), body text)",
    "INSERT INTO events SELECT md5(i::text)::uuid, now(), repeat('y', 80) FROM generate_series(1, 60000) i",
    "CREATE UNLOGGED TABLE staging AS SELECT * FROM events LIMIT 5000",
    "SELECT pg_create_physical_replication_slot('old_standby', true)",
    "VACUUM ANALYZE",
)
_LOAD = (
    f"UPDATE orders SET state = 'paid' WHERE id = 1 + floor(random() * {_ROWS})::int",
    "INSERT INTO events (id, body) VALUES (md5(random()::text)::uuid, repeat('z', 80))",
)
_SESSIONS = 2
Progress = Callable[[str], None]


@contextmanager
def demo_server(install: Install, work: Path, progress: Progress) -> Iterator[str]:
    """The connection string of the server, under load until the block is left. Raises ClusterError."""
    user = server_user()
    reachable = reachable_install(install, user)
    with Workspace(work, user) as workspace:
        folder = workspace.make_folder("demo")
        progress(f"making a throw-away server: PostgreSQL {install.version}")
        templates.clone(templates.prepare_empty(workspace, reachable, ()), folder, flush=False)
        cluster = Cluster(reachable, workspace, folder)
        cluster.start(SETTINGS)
        over = threading.Event()
        writers = [
            threading.Thread(target=_write, args=(cluster.conninfo, over), daemon=True)
            for _ in range(_SESSIONS)
        ]
        try:
            with as_failure(), cluster.connect() as session:
                for statement in _SETUP:
                    session.execute(statement.encode())
            for writer in writers:
                writer.start()
            yield cluster.conninfo
        finally:
            over.set()
            for writer in writers:
                if writer.ident is not None:
                    writer.join()
            cluster.stop("immediate")


def _write(conninfo: str, over: threading.Event) -> None:
    # A server that ends is the end of the load, too, and the observer says so.
    with suppress(psycopg.Error), psycopg.connect(conninfo, autocommit=True) as session:
        while not over.is_set():
            for statement in _LOAD:
                session.execute(statement)
