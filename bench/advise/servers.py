"""Throw-away servers under a load, as benches of advice need them: made, loaded, looked at, gone.

What is seen is a ``ServerCase``, as rules get it. The look is the command itself, as a role with pg_monitor
and REPLICATION, where the WAL is recorded; a session of ``observe`` alone where statistics are enough.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from walproof.advise.server.case import ServerCase
from walproof.cli.advising import case_of, recorded_window
from walproof.cli.options import duration_s
from walproof.cli.promises import may_lose
from walproof.observe.server import ServerObserver
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import discover, find
from walproof.postgres.reach import reachable_install, reachable_pgbench
from walproof.postgres.template import clone, prepare_empty
from walproof.postgres.workspace import Workspace
from walproof.privilege.environment import child_environment
from walproof.privilege.user import server_user

LOOKER = "looker"
_ROLE = (f"CREATE ROLE {LOOKER} LOGIN REPLICATION", f"GRANT pg_monitor TO {LOOKER}")


class Laboratory:
    """A workspace in ``work`` and the installs of this machine."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.pgbench = reachable_pgbench(discover(), workspace.user)
        self._made = 0

    @contextmanager
    def server(
        self,
        pg: str,
        settings: Mapping[str, str],
        *prepare: str,
        like: Server | None = None,
        initdb: tuple[str, ...] = (),
    ) -> Iterator[Server]:
        """A server with checksums that is up until the block is left, with the data of one that is down."""
        install = reachable_install(find(pg), self.workspace.user)
        self._made += 1
        folder = self.workspace.make_folder(f"server{self._made}")
        empty = prepare_empty(self.workspace, install, ("--data-checksums", *initdb))
        clone(empty if like is None else like.cluster.folder, folder, flush=False)
        cluster = Cluster(install, self.workspace, folder)
        cluster.start(settings)
        try:
            server = Server(self, cluster, settings)
            server.sql(*(_ROLE if like is None else ()), *prepare)
            yield server
        finally:
            if cluster.is_running():
                cluster.stop("immediate")
            self.workspace.remove_folder(folder)


@contextmanager
def laboratory(work: Path) -> Iterator[Laboratory]:
    """Everything is gone when the block is left, but for empty data directories kept as templates."""
    with Workspace(work, server_user()) as workspace:
        yield Laboratory(workspace)


class Server:
    """One server, and the statements that are executed on it."""

    def __init__(self, laboratory: Laboratory, cluster: Cluster, settings: Mapping[str, str]) -> None:
        self.laboratory = laboratory
        self.cluster = cluster
        self.settings = settings

    def sql(self, *statements: str) -> None:
        """Execute each statement in its own transaction, as the superuser."""
        with self.cluster.connect() as session:
            for statement in statements:
                session.execute(statement.encode())

    def folder(self, name: str) -> Path:
        """Make a new folder that belongs to the servers' user."""
        return self.laboratory.workspace.make_folder(name)

    def fill(self, scale: int) -> None:
        """Make pgbench's tables."""
        self._pgbench("-i", "-q", "-s", str(scale)).communicate()

    @contextmanager
    def beside(self, program: str, *arguments: str) -> Iterator[None]:
        """Run a program of the embedded client, such as pg_receivewal, until the block is left."""
        path = self.laboratory.pgbench.with_name(program)
        running = subprocess.Popen(
            [str(path), "-d", self.cluster.conninfo, *arguments],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=child_environment(),
        )  # fmt: skip
        try:
            yield
            if running.poll() is not None:
                raise SystemExit(f"{program} ended: {running.communicate()[1].decode()}")
        finally:
            running.terminate()
            running.communicate()

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of the embedded client to its end."""
        path = self.laboratory.pgbench.with_name(program)
        command = [str(path), "-d", self.cluster.conninfo, *arguments]
        subprocess.run(command, check=True, capture_output=True, env=child_environment())

    @contextmanager
    def load(self, *arguments: str) -> Iterator[None]:
        """Run pgbench with these arguments until the block is left."""
        running = self._pgbench("-n", "-T", "3600", *arguments)
        try:
            yield
            if running.poll() is not None:
                raise SystemExit(f"pgbench ended: {running.communicate()[1].decode()}")
        finally:
            running.terminate()
            running.communicate()

    def crash(self, is_time: Callable[[], bool], *arguments: str) -> None:
        """Crash the server under pgbench as soon as ``is_time``, and let it recover."""
        running = self._pgbench("-n", "-T", "3600", *arguments)
        try:
            while not is_time() and running.poll() is None:
                time.sleep(0.2)
            if running.poll() is not None:
                raise SystemExit(f"pgbench ended: {running.communicate()[1].decode()}")
            self.cluster.stop("immediate")
        finally:
            running.terminate()
            running.communicate()
        self.cluster.start(self.settings)

    def work(self, *arguments: str) -> None:
        """Run pgbench to its end, for example for a number of transactions (``-t``)."""
        running = self._pgbench("-n", *arguments)
        said = running.communicate()[1].decode()
        if running.returncode != 0:
            raise SystemExit(f"pgbench failed: {said}")

    def script(self, sql: str, weight: int = 1) -> tuple[str, str]:
        """Arguments of pgbench for a script."""
        with tempfile.NamedTemporaryFile(
            "w", suffix=".sql", dir=self.laboratory.workspace.folder, delete=False
        ) as file:
            file.write(sql + "\n")
        return "-f", f"{file.name}@{weight}"

    def look(self, seconds: float, *options: str) -> ServerCase:
        """Look as ``walproof advise`` does with these options, WAL included."""
        with tempfile.TemporaryDirectory() as parent:
            folder = Path(parent) / "kept"
            program = str(Path(sys.executable).with_name("walproof"))
            command = [program, "advise", f"{self.cluster.conninfo} user={LOOKER}", "--for", f"{seconds:g}s",
                       "--save", str(folder), "--json", *options]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise SystemExit(f"walproof advise failed: {done.stderr}")
            return read_kept(folder, options)

    def glance(self, seconds: float = 1.0) -> ServerCase:
        """Look at statistics and settings alone."""
        with ServerObserver(f"{self.cluster.conninfo} user={LOOKER}") as observer:
            observer.wait(seconds, lambda: False)
            return ServerCase(observer.window())

    def _pgbench(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(self.laboratory.pgbench), *arguments, self.cluster.conninfo],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=child_environment(),
        )  # fmt: skip


def read_kept(folder: Path, options: Sequence[str] = ()) -> ServerCase:
    """Read the facts that ``--save`` kept, as the command does."""
    given = dict(zip(options[::2], options[1::2], strict=True))
    return case_of(
        recorded_window(folder), folder, may_lose(given.get("--may-lose", "nothing")), None, None, None,
        duration_s(given.get("--startup-budget")),
    )  # fmt: skip
