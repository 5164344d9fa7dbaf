"""Whole archives that real tools made: wal verify finds nothing wrong with them, and their windows hold.

    cd EMPTY && apt-get download pgbackrest barman python3-barman python3-argcomplete python3-dateutil
    python3-six \\ python3-psycopg2 libssh2-1 for deb in *.deb; do dpkg -x $deb tools; done PYTHONPATH=.
    python bench/verify/real_tools.py --tools EMPTY/tools

Nothing is installed: the packages are unpacked into a folder that the servers' user can enter. A server of
PostgreSQL 15 (the newest that pgBackRest 2.45 and Barman 3.4 of Debian 12 know) archives with pgBackRest in
each of its compressions and encrypted, with Barman in each of its own, and with plain commands, in segments
of 1 and 16 MB: twenty-six archives. Each is verified, then restored for real with the tool's own command to
the last record of its newest window, and one step past it. Then a segment is taken away, and that has to be
named."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.wal.server import BINDIRS, Server
from tests.wal.verify.restore import ENDED_BEFORE, outcome, restore
from walproof.privilege.user import running_as, server_user
from walproof.wal.verify.verify import VerifiedArchive, verify

PGBACKREST = ("none", "gz", "lz4", "zst", "bz2", "none encrypted", "lz4 encrypted", "zst encrypted")
PASS_VARIABLE = "PGBACKREST_REPO1_CIPHER_PASS"
BARMAN = ("none", "gzip", "bzip2")
PLAIN = {"cp": "cp %p A/%f", "gzip": "gzip -1 < %p > A/%f.gz"}
SEGMENTS_MB = (1, 16)


@dataclass
class Made:
    """An archive that a tool made."""

    name: str
    root: Path
    """What is verified."""
    backup: Path
    """A base backup as a data directory."""
    restore_command: str


class Tools:
    """The unpacked packages."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def pgbackrest(self, configuration: Path, *arguments: str) -> str:
        """The command as a shell takes it."""
        libraries = self.root / "usr/lib/x86_64-linux-gnu"
        program = self.root / "usr/bin/pgbackrest"
        words = f"--config={configuration} --stanza=main {' '.join(arguments)}"
        return f"LD_LIBRARY_PATH={libraries} {program} {words}"

    def barman(self, configuration: Path, *arguments: str) -> str:
        """The command as a shell takes it."""
        packages = self.root / "usr/lib/python3/dist-packages"
        program = f"/usr/bin/python3 {self.root / 'usr/bin/barman'}"
        path = f"PATH={BINDIRS['15']}:{self.root / 'usr/bin'}:/usr/bin:/bin"
        return f"{path} PYTHONPATH={packages} {program} -c {configuration} {' '.join(arguments)}"


def run(command: str) -> str:
    """Run a command as the servers' user."""
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        **running_as(server_user()),
    )
    if done.returncode != 0:
        raise SystemExit(f"{command}\nended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def work(server: Server) -> None:
    """Write some segments: small records, records that cross edges, switches."""
    with server.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (id serial PRIMARY KEY, filler text)")
        for _ in range(60):
            connection.execute("INSERT INTO t (filler) SELECT repeat('x', 50) FROM generate_series(1, 60)")
        connection.execute("SELECT pg_logical_emit_message(false, 'walproof', repeat('m', 2500000))")
        connection.execute("SELECT pg_switch_wal()")
        connection.execute("INSERT INTO t (filler) SELECT repeat('y', 50) FROM generate_series(1, 600)")


def archived(server: Server) -> None:
    """Switch, and wait until the archiver has the last segment."""
    with server.connect() as connection:
        row = connection.execute("SELECT pg_walfile_name(pg_switch_wal() - 1)").fetchone()
        assert row is not None
        deadline = time.monotonic() + 120
        while True:
            last = connection.execute("SELECT last_archived_wal FROM pg_stat_archiver").fetchone()
            if last is not None and str(last[0] or "")[:24] >= str(row[0]):
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"{row[0]} was not archived:\n{server.log.read_text()[-2000:]}")
            time.sleep(0.1)


def settings(command: str) -> dict[str, str]:
    """Settings of a server that archives with ``command``."""
    return {"wal_level": "replica", "archive_mode": "on", "archive_command": command.replace("'", "''"),
            "wal_keep_size": "0", "log_timezone": "UTC", "timezone": "UTC"}  # fmt: skip


def own_folder(path: Path) -> Path:
    """Make a folder that belongs to the servers' user."""
    path.mkdir(parents=True)
    if (user := server_user()) is not None:
        shutil.chown(path, user.uid, user.gid)
    return path


def with_pgbackrest(tools: Tools, folder: Path, compression: str, segment_mb: int) -> Iterator[Made]:
    """pgBackRest: full and incremental backup, archive-push, archive-get."""
    repository = own_folder(folder / "repository")
    configuration = folder / "pgbackrest.conf"
    method, _, encrypted = compression.partition(" ")
    cipher = "aes-256-cbc" if encrypted else "none"
    # The tool and walproof take the pass from the same place.
    os.environ.pop(PASS_VARIABLE, None)
    if encrypted:
        os.environ[PASS_VARIABLE] = secrets.token_urlsafe(48)
    push = tools.pgbackrest(configuration, "archive-push", "%p")
    with Server(BINDIRS["15"], settings(push), segment_mb=segment_mb) as server:
        lines = [
            "[global]", f"repo1-path={repository}", f"log-path={repository}", f"lock-path={folder / 'lock'}",
            f"compress-type={method}", f"repo1-cipher-type={cipher}", "start-fast=y",
            "repo1-retention-full=9", "[main]",
            f"pg1-path={server.data}", f"pg1-socket-path={server.folder}", "pg1-user=postgres",
        ]  # fmt: skip
        own_folder(folder / "lock")
        configuration.write_text("\n".join(lines) + "\n")
        run(tools.pgbackrest(configuration, "stanza-create"))
        work(server)
        run(tools.pgbackrest(configuration, "backup"))
        work(server)
        run(tools.pgbackrest(configuration, "--type=incr", "backup"))
        work(server)
        archived(server)
        restored = own_folder(folder / "backup")
        restored.chmod(0o700)
        run(tools.pgbackrest(configuration, f"--pg1-path={restored}", "--type=none", "restore"))
        # archive-get compares the archive with the cluster's control file.
        get = tools.pgbackrest(configuration, f"--pg1-path={server.data}", "archive-get", "%f", "%p")
        yield Made(f"pgBackRest {compression}", repository, restored, get.replace("%p", '"$PWD/%p"'))


def with_barman(tools: Tools, folder: Path, compression: str, segment_mb: int) -> Iterator[Made]:
    """Barman: archive_command copies to its incoming folder, backups by pg_basebackup."""
    home = own_folder(folder / "barman")
    configuration = folder / "barman.conf"
    with Server(BINDIRS["15"], settings(f"cp %p {home}/main/incoming/%f"), segment_mb=segment_mb) as server:
        compress = [] if compression == "none" else [f"compression = {compression}"]
        user = server_user()
        lines = [
            "[barman]", f"barman_home = {home}", f"barman_lock_directory = {home}",
            f"barman_user = {user.name if user is not None else os.environ['USER']}", "log_level = INFO",
            f"log_file = {home}/barman.log", *compress, "[main]", "description = main",
            f"conninfo = host={server.folder} user=postgres dbname=postgres",
            f"streaming_conninfo = host={server.folder} user=postgres", "backup_method = postgres",
            "archiver = on", "immediate_checkpoint = true", f"path_prefix = {BINDIRS['15']}",
        ]  # fmt: skip
        configuration.write_text("\n".join(lines) + "\n")
        for _ in range(2):
            run(tools.barman(configuration, "check", "main") + " || true")  # the first call makes the folders
        for _ in range(2):
            work(server)
            archived(server)
            run(tools.barman(configuration, "archive-wal", "main"))  # a backup wants some WAL to be there
            run(tools.barman(configuration, "backup", "main") + f" || cat {home}/barman.log")
        work(server)
        archived(server)
        run(tools.barman(configuration, "archive-wal", "main"))
        newest = sorted((home / "main" / "base").iterdir())[-1]
        get = tools.barman(configuration, "get-wal", "main", "%f", ">", "%p")
        yield Made(f"Barman {compression}", home, newest / "data", get)


def with_commands(folder: Path, name: str, segment_mb: int) -> Iterator[Made]:
    """archive_command as the manual has it, and pg_basebackup."""
    archive = own_folder(folder / "archive")
    command = PLAIN[name].replace("A/", f"{archive}/")
    with Server(BINDIRS["15"], settings(command), segment_mb=segment_mb) as server:
        work(server)
        backup = folder / "backup"
        own_folder(backup)
        backup.chmod(0o700)
        run(
            f"{BINDIRS['15']}/pg_basebackup -h {server.folder} -U postgres -D {backup} -X none"
            " --checkpoint=fast --no-sync"
        )
        work(server)
        archived(server)
        get = f"cp {archive}/%f %p" if name == "cp" else f"gunzip < {archive}/%f.gz > %p"
        yield Made(f"archive_command {name}", folder, backup, get)


def judge(made: Made, folder: Path) -> list[str]:
    """Yield everything that is not as it should be."""
    complaints = []
    (archive,) = verify([made.root]).archives
    complaints += [f"invented: {problem}" for problem in archive.faults]
    if not archive.windows:
        return [*complaints, "no window"]
    window = archive.windows[-1]
    for target, expected in ((window.last_record, "recovery stopping after"), (window.end, ENDED_BEFORE)):
        log = restore(
            BINDIRS["15"], made.backup, made.restore_command, folder / "restored",
            {"recovery_target_lsn": str(target), "recovery_target_timeline": str(window.timeline)},
        )  # fmt: skip
        if expected not in outcome(log):
            complaints.append(f"restore to {target}: {outcome(log)}")
    return complaints + missed(made, archive)


def missed(made: Made, archive: VerifiedArchive) -> list[str]:
    """Take a segment away, and check that it is named."""
    names = sorted(
        {file.name[:24]: file for file in made.root.rglob("*") if file.is_file() and len(file.name) >= 24 and
         file.name[:24].isalnum() and ".backup" not in file.name and file.name[:8] == "00000001"}.items()
    )  # fmt: skip
    name, file = names[-2]
    file.unlink()
    (broken,) = verify([made.root]).archives
    found = [(problem.kind, problem.segment) for problem in broken.faults]
    return [] if found == [("missing", name)] else [f"{name} was taken away, found {found}"]


def main() -> None:
    """Make, verify, restore, break."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tools", type=Path, required=True, help="where the packages are unpacked")
    arguments = parser.parse_args()
    tools = Tools(arguments.tools)
    failed = count = 0
    for segment_mb in SEGMENTS_MB:
        for kind, way in [
            *(("pgBackRest", case) for case in PGBACKREST),
            *(("Barman", case) for case in BARMAN),
            *(("commands", case) for case in PLAIN),
        ]:
            folder = Path(tempfile.mkdtemp(prefix="walproof-real-"))
            folder.chmod(0o755)
            try:
                makers = {
                    "pgBackRest": lambda: with_pgbackrest(tools, folder, way, segment_mb),  # noqa: B023
                    "Barman": lambda: with_barman(tools, folder, way, segment_mb),  # noqa: B023
                    "commands": lambda: with_commands(folder, way, segment_mb),  # noqa: B023
                }
                for made in makers[kind]():
                    complaints = judge(made, folder)
                    count += 1
                    failed += bool(complaints)
                    verdict = "whole, restored, its gap found" if not complaints else "; ".join(complaints)
                    print(f"{made.name}, segments of {segment_mb} MB: {verdict}", flush=True)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    print(f"{count} archives, {failed} not as they should be")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
