"""Throw-away servers that the probes are tried on: one for each PostgreSQL at hand."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import versions
from walproof.postgres.install import examine, major
from walproof.privilege.user import running_as, server_user
from walproof.probe.protocol import Subject

BINDIRS = versions.bindirs() | {
    str(major(install)): Path(install.bindir) for install in versions.installs() if major(install) in (17, 19)
}
PGBENCH = BINDIRS["18"] / "pgbench"
SCALE = 2


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, and pgbench for it."""

    bindir: Path
    folder: Path
    process: subprocess.Popen[bytes]
    version_num: int

    @property
    def conninfo(self) -> str:
        return f"host={self.folder} port=5432 user=postgres dbname=postgres"

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        # The databases are SQL_ASCII, for the probes to meet one; the tests want text all the same.
        return psycopg.connect(self.conninfo, autocommit=True, client_encoding="UTF8")

    def subject(self, driver_pid: int = 0) -> Subject:
        return Subject(
            conninfo=self.conninfo,
            data=self.folder / "data",
            log=self.folder / "server.log",
            postmaster_pid=self.process.pid,
            driver_pid=driver_pid or os.getpid(),
            version_num=self.version_num,
        )

    def pgbench(self, *options: str) -> subprocess.Popen[str]:
        """Start pgbench; end it with `communicate`."""
        command = [str(PGBENCH), "-h", str(self.folder), "-p", "5432", "-U", "postgres", *options, "postgres"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _run(command: Sequence[str], as_user: Mapping[str, Any], cwd: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, **as_user)
    assert done.returncode == 0, f"{command[0]} failed: {done.stderr}"


def _start(bindir: Path, folder: Path) -> Server:
    user = server_user()
    folder.chmod(0o755)
    as_user: Mapping[str, Any] = {}
    if user is not None:
        os.chown(folder, user.uid, user.gid)
        as_user = {**running_as(user)}
    data = folder / "data"
    initdb = [str(bindir / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "--locale=C", "-N"]
    _run(initdb, as_user, folder)
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(folder),
        "log_checkpoints": "on",
        "log_line_prefix": "%m [%p] ",
        "log_timezone": "UTC",
        "shared_buffers": "32MB",
        "track_wal_io_timing": "on",
        "cluster_name": "probe: test",
        "autovacuum": "off",  # it would write WAL of its own when it likes
    }
    with (data / "postgresql.conf").open("a") as conf:
        conf.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [str(bindir / "postgres"), "-D", str(data)],
            stdout=log,
            stderr=log,
            cwd=folder,
            **as_user,
        )
    return Server(bindir, folder, process, examine(bindir, "given").version_num)


def _wait_until_ready(server: Server) -> None:
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(psycopg.OperationalError):
            server.connect().close()
            return
        log = server.folder / "server.log"
        assert server.process.poll() is None, f"the server ended: {log.read_text()}"
        assert time.monotonic() < deadline, f"the server does not answer: {log.read_text()}"
        time.sleep(0.05)


def _stop(server: Server) -> None:
    server.process.send_signal(signal.SIGINT)
    try:
        server.process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        server.process.send_signal(signal.SIGQUIT)
        server.process.wait(timeout=30)


@contextlib.contextmanager
def _serve(version: str) -> Iterator[Server]:
    bindir = BINDIRS[version]
    folder = Path(tempfile.mkdtemp(prefix="walproof-probe-", dir="/tmp"))
    try:
        server = _start(bindir, folder)
        try:
            _wait_until_ready(server)
            loader = server.pgbench("-i", "-q", "-s", str(SCALE))
            _, errors = loader.communicate(timeout=60)
            assert loader.returncode == 0, errors
            versions.note(examine(bindir, "given").version)
            yield server
        finally:
            _stop(server)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], Server]]:
    """Version -> its server, which is started when it is first asked for and runs until the end: a fixture
    with parameters would start each of them again for each file."""
    with contextlib.ExitStack() as running:
        yield functools.cache(lambda version: running.enter_context(_serve(version)))


@pytest.fixture(params=list(BINDIRS))
def server(request: pytest.FixtureRequest, servers: Callable[[str], Server]) -> Server:
    """A server of each version at hand, in turn."""
    return servers(request.param)


@pytest.fixture(scope="session")
def server18() -> Iterator[Server]:
    """A server of the newest version, for what does not depend on the version."""
    with _serve("18") as served:
        yield served
