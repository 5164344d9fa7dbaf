"""A server under one of the loads of bench/recovery, and ``walproof watch`` on it in this process."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.recovery.workloads import Workload
from walproof.cli.watch_order import ServerOrder, WatchOrder
from walproof.cli.watched import Fleet
from walproof.facts import Install
from walproof.facts.watch import StreamPhase
from walproof.postgres import template as templates
from walproof.postgres.cluster import SUPERUSER, Cluster
from walproof.postgres.install import discover
from walproof.postgres.reach import reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.report.watch.view import ServerView

_PATIENCE_S = 120.0


class LoadedServer:
    """A running server with the tables of a load."""

    def __init__(
        self, install: Install, workspace: Workspace, load: Workload, settings: Mapping[str, str]
    ) -> None:
        self.cluster = Cluster(
            install, workspace, workspace.make_folder(f"{load.name}-{install.version_num // 10000}")
        )
        self.settings = {**settings, **load.settings}
        self._load = load
        self._script: Path | None = None
        self._pgbench = str(reachable_pgbench([install, *discover()], workspace.user))
        templates.clone(templates.prepare_empty(workspace, install, ()), self.cluster.folder, flush=False)
        self.cluster.start(self.settings)
        if load.scale:
            self._run("-i", "-q", "-s", str(load.scale))
        with self.cluster.connect() as session:
            for statement in (*load.setup, "VACUUM", "CHECKPOINT"):
                session.execute(statement.encode())
        if load.script is not None:
            self._script = workspace.folder / f"{load.name}-{install.version_num // 10000}.sql"
            self._script.write_text(load.script)
            self._script.chmod(0o644)

    @property
    def conninfo(self) -> str:
        """Conninfo for programs on this machine."""
        return f"{self.cluster.conninfo} user={SUPERUSER}"

    def burst(self, seconds: int) -> str:
        """Run the load for this many seconds; return what pgbench prints."""
        script = [] if self._script is None else ["-f", str(self._script)]
        return self._run("-n", "-c", str(self._load.clients), "-T", str(seconds), *script)

    def lsn(self) -> int:
        """Location up to which WAL was written."""
        with self.cluster.connect() as session:
            row = session.execute("SELECT (pg_current_wal_lsn() - '0/0')::int8").fetchone()
        assert row is not None
        return int(str(row[0]))

    def _run(self, *options: str) -> str:
        place = ["-h", str(self.cluster.sockets), "-p", str(self.cluster.port), "-U", SUPERUSER, "postgres"]
        done = subprocess.run([self._pgbench, *options, *place], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"pgbench: {done.stderr}")
        return done.stdout


@contextmanager
def loaded_server(
    install: Install, workspace: Workspace, load: Workload, settings: Mapping[str, str]
) -> Iterator[LoadedServer]:
    """Run a loaded server; it is stopped and removed afterwards."""
    server = LoadedServer(install, workspace, load, settings)
    try:
        yield server
    finally:
        server.cluster.stop("immediate")
        workspace.remove_folder(server.cluster.folder)


@contextmanager
def watching(*conninfos: str, every_s: float = 0.5, calibration: Path | None = None) -> Iterator[Fleet]:
    """Run the watch of the command, without its page."""
    servers = tuple(ServerOrder(conninfo, calibration=calibration) for conninfo in conninfos)
    with Fleet(WatchOrder(servers, every_s)) as fleet:
        yield fleet


def until(fleet: Fleet, is_so: Callable[[ServerView], bool], patience_s: float = _PATIENCE_S) -> ServerView:
    """Return the server's first view that fulfils the condition. Ends the bench if there is none."""
    until_s = time.monotonic() + patience_s
    while time.monotonic() < until_s:
        (view,) = fleet.views(1.0)
        if is_so(view):
            return view
        time.sleep(0.05)
    raise SystemExit(f"the watch did not get there in {patience_s:.0f} s: {view}")


def is_at(lsn: int) -> Callable[[ServerView], bool]:
    """Condition: the crash clock holds all WAL up to that location."""

    def is_there(view: ServerView) -> bool:
        is_live = view.stream.phase is StreamPhase.LIVE and (view.stream.received or 0) >= lsn
        return is_live and view.clock is not None and not view.clock.is_recomputing

    return is_there
