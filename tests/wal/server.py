"""A throw-away server of any PostgreSQL from 13 on, for making WAL and asking its own pg_waldump about it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from tests import versions
from walproof.postgres.install import major
from walproof.privilege.user import running_as, server_user
from walproof.units import Lsn

_BINDIR_19 = versions.given_19() or Path("/usr/lib/postgresql/19/bin")
BINDIRS = versions.bindirs() | ({"19": _BINDIR_19} if _BINDIR_19.is_dir() else {})
"""Version -> binaries with pg_waldump, of those at hand. 19 is where Debian puts it, unless
WALPROOF_TEST_PG19 names a folder (bench/distribution_install.py makes one)."""
SERVERS = BINDIRS | {
    str(major(install)): Path(install.bindir) for install in versions.installs() if major(install) == 17
}
"""Also a 17, for what needs no program but the server: the one that is fetched has none."""
SETTINGS = {
    "wal_level": "logical",
    "autovacuum": "off",
    "max_prepared_transactions": "5",
    "track_commit_timestamp": "on",
    "checkpoint_timeout": "1h",
    "shared_buffers": "16MB",
    "fsync": "off",
    "jit": "off",  # brings nothing here, and an unpacked build may lack its library
    "wal_keep_size": "2GB",  # nothing that is to be read is recycled
}


def _as_server() -> dict[str, Any]:
    """Options of ``subprocess`` that switch to the server's user: PostgreSQL refuses to run as root."""
    user = server_user()
    return {**running_as(user)}


def _hand_over(folder: Path) -> None:
    user = server_user()
    if user is not None:
        os.chown(folder, user.uid, user.gid)


class Server:
    """A cluster in a temporary folder; a context manager that leaves nothing behind."""

    def __init__(
        self,
        bindir: Path,
        settings: Mapping[str, str] | None = None,
        *,
        segment_mb: int = 16,
        checksums: bool = False,
        namespace: str | None = None,
    ) -> None:
        """``namespace``: of the network, where the server runs; needs root."""
        self.bindir = bindir
        self._namespace = namespace
        said = self._run("postgres", "--version").stdout
        found = re.search(r"\) (\d+)", said)
        assert found is not None, said
        self.major = int(found[1])
        versions.note(said.split()[2])
        self.folder = Path(tempfile.mkdtemp(prefix="walproof-wal-"))
        self.data = self.folder / "data"
        self.wal = self.data / "pg_wal"
        self.log = self.folder / "server.log"
        _hand_over(self.folder)
        self._process: subprocess.Popen[bytes] | None = None
        options = ["--data-checksums"] if checksums else []
        if not checksums and self.major >= 18:  # whose initdb makes them unless told otherwise
            options = ["--no-data-checksums"]
        self._run(
            "initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8",
            "--locale=C", f"--wal-segsize={segment_mb}", *options, as_server=True,
        )  # fmt: skip
        place = {"listen_addresses": "", "unix_socket_directories": str(self.folder)}
        self.configure({**SETTINGS, **(settings or {}), **place})

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it and wait until it answers."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._entering, str(self.bindir / "postgres"), "-D", str(self.data)],
                stdout=log,
                stderr=log,
                cwd="/",
                **({} if self._namespace else _as_server()),
            )
        deadline = time.monotonic() + 60
        while True:
            assert self._process.poll() is None, self.log.read_text()[-2000:]
            try:
                self.connect().close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, self.log.read_text()[-2000:]
                time.sleep(0.05)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: fast, with a shutdown checkpoint. SIGQUIT: as a crash."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def connect(self, database: str = "postgres") -> psycopg.Connection[tuple[object, ...]]:
        """An autocommit connection of the superuser."""
        return psycopg.connect(f"host={self.folder} user=postgres dbname={database}", autocommit=True)

    def new_folder(self, name: str) -> Path:
        """An empty folder beside the data directory that the server may write to."""
        folder = self.folder / name
        folder.mkdir()
        _hand_over(folder)
        return folder

    def configure(self, settings: Mapping[str, str]) -> None:
        """Settings from the next start or reload on; later ones win."""
        with (self.data / "postgresql.conf").open("a") as conf:
            for name, value in settings.items():
                conf.write(f"{name} = '{value}'\n")

    def accepts(self, name: str, value: str) -> bool:
        """Whether this build knows that value of that setting."""
        asked = self._run(
            "postgres", "-D", str(self.data), "-C", name, "-c", f"{name}={value}",
            as_server=True, check=False,
        )  # fmt: skip
        return asked.returncode == 0

    def insert_lsn(self) -> Lsn:
        """Where the next record will begin. The WAL up to there is on disk when this returns."""
        with self.connect() as connection:
            row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            # A commit flushes all that was inserted before it.
            connection.execute("SELECT pg_logical_emit_message(true, 'walproof', 'flush')")
        assert row is not None
        return Lsn.parse(str(row[0]))

    def quiet_reading(self) -> tuple[Lsn, int, int, int]:
        """LSN, and records, images and bytes of pg_stat_wal, at a moment when nothing writes (from 14)."""
        with self.connect() as connection:
            for _ in range(2):  # sessions report what they wrote at most once a second, when they go idle
                connection.execute("SELECT 1")
                time.sleep(1.2)
            row = connection.execute(
                "SELECT pg_current_wal_insert_lsn()::text, wal_records, wal_fpi, wal_bytes FROM pg_stat_wal"
            ).fetchone()
        assert row is not None
        return Lsn.parse(str(row[0])), int(str(row[1])), int(str(row[2])), int(str(row[3]))

    def setting(self, name: str) -> str:
        """As SHOW says."""
        with self.connect() as connection:
            row = connection.execute(f"SHOW {name}").fetchone()
        assert row is not None
        return str(row[0])

    def segments(self) -> list[Path]:
        """The files of the WAL, those prepared for later use among them."""
        return sorted(file for file in self.wal.iterdir() if re.fullmatch(r"[0-9A-F]{24}", file.name))

    @property
    def own_waldump(self) -> list[str]:
        """The command of the pg_waldump beside the server, whether there is one or not."""
        return [str(self.bindir / "pg_waldump")]

    @property
    def _entering(self) -> list[str]:
        """What starts a program in the namespace, as the server's user."""
        if self._namespace is None:
            return []
        user = server_user()
        assert user is not None, "namespaces need root"
        enter = ["nsenter", f"--net=/run/netns/{self._namespace}"]
        return [*enter, f"--setuid={user.uid}", f"--setgid={user.gid}"]

    def _run(
        self, name: str, *arguments: str, as_server: bool = False, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self.bindir / name), *arguments],
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            **(_as_server() if as_server else {}),
        )
        assert done.returncode == 0 or not check, done.stderr
        return done
