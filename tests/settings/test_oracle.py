"""Our reading of settings against the server's own: every PostgreSQL on this machine is asked the same.

The question is `postgres -C NAME -c NAME=VALUE` on a data directory: it checks the value and prints what the
server would hold.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import versions
from walproof.errors import SettingError
from walproof.facts.plan import Install
from walproof.postgres.build import available_values
from walproof.postgres.install import label_all, major
from walproof.postgres.reach import reachable_install
from walproof.privilege.user import running_as, server_user
from walproof.settings.catalogue import Catalogue
from walproof.settings.value import Context, parse

VENDORS = {"extension_destdir"}
"""Settings that a distribution's patches add (Debian)."""

QUESTIONS = [
    *((name, word) for name in ("fsync", "full_page_writes") for word in (
        "on", "OFF", "o", "of", "t", "TRU", "y", "ye", "yess", "0", "1", "2", "", " on", "no", "n", "f"
    )),
    *(("max_wal_size", text) for text in (
        "4GB", "4096", " 4 GB ", "4gb", "4Gb", "0.5GB", "30.1GB", "1e3", "1e3MB", "0x10", "010", "08",
        "1", "2",
        "-1", "+4GB", "2147483647", "2147483648", "1e10", "99999999999999999999", "4s", "4 G B", "", "MB",
        "00000000000000000000000000017MB", "\u00a04MB", "0xfffffffffffffffffff",
        ".5GB", "1.GB", "inf", "nan", "1e", "4MBs", "4\tMB", "1TB", "3000000B", "--1", "0x", "1e400",
    )),
    *(("shared_buffers", text) for text in ("128kB", "127kB", "129kB", "15", "16", "1GB", "8589934584kB")),
    *(("checkpoint_timeout", text) for text in (
        "5min", "1h", "1d", "2d", "29s", "30000ms", "30499ms", "30000000us", "0.5min", "5 m", "5MB", "30.5",
    )),
    *(("wal_writer_delay", text) for text in ("0.2s", "1499us", "499us", "500us", "10s", "10001ms")),
    *(("vacuum_cost_delay", text) for text in ("1500us", "0.0015s", "1.5", "100.001", "1us", "2ms", "x")),
    *(("checkpoint_completion_target", text) for text in (
        ".9", "0.90", "1", "1.0001", "-0", "-0.1", "1e-3", "nan", "inf", "0.5s", "", "1e-400", "0x1",
        "0x.8p0", "0x1e", "0e0", "1e400",
    )),
    *(("commit_delay", text) for text in ("100000", "100001", "10ms", "1.5", "2.5", "-0.4", "-0.6")),
    *(("wal_buffers", text) for text in ("-1", "-2", "64kB", "16MB", "1.5MB")),
    *(("synchronous_commit", text) for text in (
        "off", "Local", "remote_write", "true", "1", "t", "yes", "remote", "2", "",
    )),
    *(("wal_level", text) for text in ("minimal", "REPLICA", "archive", "hot_standby", "logical", "full")),
    *(("wal_compression", text) for text in ("on", "off", "pglz", "PGLZ", "lz5", "1", "t", "")),
    *(("wal_sync_method", text) for text in ("fdatasync", "fsync", "open_sync", "fsync_write", "off")),
    ("max_connections", "100"), ("max_connections", "0"), ("max_connections", "10000"),
    ("max_connections", "262144"), ("client_min_messages", "debug"), ("client_min_messages", "panic"),
    ("effective_cache_size", "4GB"), ("random_page_cost", "1.1"), ("random_page_cost", "1.1MB"),
    ("work_mem", "63kB"), ("work_mem", "64kB"), ("autovacuum_vacuum_scale_factor", "0.01"),
    ("archive_command", "cp %p /x/%f"), ("application_name", ""), ("max_slot_wal_keep_size", "-1"),
    ("no_such_setting", "1"), ("Max_Wal_Size", "1GB"),
]  # fmt: skip


@dataclass(frozen=True)
class Oracle:
    """An install with a data directory; nothing runs between two questions."""

    install: Install
    folder: Path
    run_as: dict[str, Any]

    def ask(self, name: str, value: str) -> tuple[str | None, str]:
        """(the value as the server holds it, None if it refuses; what it said)."""
        done = self._run("postgres", "-C", name, "-D", f"{self.folder}/data", "-c", f"{name}={value}")
        return (done.stdout.rstrip("\n") if done.returncode == 0 else None), done.stderr

    def pg_settings(self) -> list[tuple[str, str | None]]:
        """(name, boot_val) of every setting, from a server that runs for the moment."""
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-o", f"-h '' -k {self.folder}", "start")
        try:
            with psycopg.connect(f"host={self.folder} user=postgres dbname=postgres") as connection:
                return connection.execute("SELECT name, boot_val FROM pg_settings").fetchall()
        finally:
            self._run("pg_ctl", "-D", f"{self.folder}/data", "-w", "-m", "immediate", "stop")

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        # stderr and stdout go to files in the folder: a server that pg_ctl starts would keep a pipe open.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            command = [f"{self.install.bindir}/{program}", *arguments]
            environment = {**os.environ, "LC_ALL": "C"}
            code = subprocess.run(
                command, stdout=out, stderr=err, env=environment, cwd="/", **self.run_as
            ).returncode
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, code, out.read(), err.read())


@pytest.fixture(
    scope="session", params=label_all(versions.ends(versions.installs())), ids=lambda install: install.label
)
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    """One for the oldest and the newest PostgreSQL on this machine."""
    user = server_user()
    folder = Path(tempfile.mkdtemp(prefix="walproof-oracle-", dir="/tmp"))
    run_as: dict[str, Any] = {**running_as(user)}
    if user is not None:
        os.chown(folder, user.uid, user.gid)
    found = Oracle(reachable_install(request.param, user), folder, run_as)
    versions.note(found.install.version)
    try:
        done = found._run(
            "initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C",
            "--encoding=UTF8",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        yield found
    finally:
        shutil.rmtree(folder)


@pytest.mark.live
def test_accepts_rejects_and_reads_as_the_server_does(oracle: Oracle) -> None:
    """Acceptance must agree for every question, and the value held, in the setting's unit, too."""
    catalogue = Catalogue.for_version(oracle.install.version_num)
    differences = []
    for name, value in QUESTIONS:
        held, said = oracle.ask(name, value)
        ours: str | None
        try:
            parsed = parse(catalogue.get(name), value)
            ours = ("off", "on")[parsed] if isinstance(parsed, bool) else str(parsed)
        except SettingError as error:
            ours, said = None, f"{said.strip()} | {error.message}"
        if (name, ours) == ("wal_compression", "on") and major(oracle.install) >= 19:
            # What it means is up to the build: the best method that it has.
            has = available_values(oracle.install, name)
            ours = next(method for method in ("zstd", "lz4", "pglz") if method in has)
        both_numbers = held and ours and catalogue.get(name).vartype == "real"
        same = float(held) == pytest.approx(float(ours)) if both_numbers else held == ours  # type: ignore[arg-type]
        if not same:
            differences.append(f"{name}={value!r}: server {held!r}, we {ours!r}; {said}")
    assert not differences, "\n".join(differences)


@pytest.mark.live
def test_knows_every_setting_of_the_server(oracle: Oracle) -> None:
    """Every row of pg_settings is in the catalogue, and its boot value is valid there.

    A minor release rarely brings a setting (file_extend_method), so only a server that is as old as the one
    that was read, or older, must hold nothing new; and only one as new must hold everything.
    """
    catalogue = Catalogue.for_version(oracle.install.version_num)
    read_from = catalogue.get("server_version_num").maximum
    assert read_from is not None
    rows = {name.lower(): boot for name, boot in oracle.pg_settings() if name not in VENDORS}
    assert len(rows) > 300
    if oracle.install.version_num <= read_from:
        assert rows.keys() <= catalogue.settings.keys()
    if oracle.install.version_num >= read_from:
        assert rows.keys() >= catalogue.settings.keys()
    for name in rows.keys() & catalogue.settings.keys():
        setting, boot = catalogue.get(name), rows[name]
        if setting.context is not Context.INTERNAL and boot is not None:
            parse(setting, boot)
