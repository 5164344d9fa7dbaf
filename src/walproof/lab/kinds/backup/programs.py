"""PostgreSQL's own programs for base backups, run as the servers' user.

They are those of the server's install: pg_basebackup refuses servers newer than itself, and a backup's
manifest is read by programs of its version.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from walproof.errors import ClusterError
from walproof.facts import Install
from walproof.facts.kinds import BackupConditions
from walproof.postgres.cluster import SUPERUSER, Cluster
from walproof.postgres.reach import ask_program
from walproof.privilege.environment import child_environment
from walproof.privilege.user import ServerUser, running_as

_INCREMENTAL_FROM, _SERVER_COMPRESSES_FROM = 170000, 150000
_LONGEST_S = 4 * 3600.0
_SAID_LINES = 5


def lack(conditions: BackupConditions, install: Install) -> str | None:
    """What an install, or this machine, lacks for a backup taken this way; None if it lacks nothing."""
    programs = ["pg_basebackup"]
    if conditions.mode == "incremental":
        if install.version_num < _INCREMENTAL_FROM:
            return f"PostgreSQL {install.label} has no incremental backups, which exist from 17"
        programs.append("pg_combinebackup")
    if conditions.compress == "server gzip" and install.version_num < _SERVER_COMPRESSES_FROM:
        return f"PostgreSQL {install.label} does not compress backups in the server, as 15 and newer do"
    for name in programs:
        if (reason := lack_of_program(install, name)) is not None:
            return reason
    if conditions.compress != "none":
        for name in ("tar", "gzip"):
            if shutil.which(name) is None:
                return f"this machine has no {name}, with which a compressed backup is unpacked"
    return None


def lack_of_program(install: Install, name: str) -> str | None:
    """Why a program of the install cannot be run; None when it can."""
    ended = _ended(install, name)
    if ended is None:
        return f"PostgreSQL {install.label} has no {name}"
    return None if ended == 0 else f"PostgreSQL {install.label} has a {name} that ends with status {ended}"


@functools.cache
def _ended(install: Install, name: str) -> int | None:
    """Exit status of the program's --version; None if there is no program. That it exists is not enough: the
    pg_verifybackup of a repackaged install ended with a segmentation fault."""
    if not os.access(program(install, name), os.X_OK):
        return None
    return ask_program(install, name, "--version").returncode


def take_backup(
    cluster: Cluster, conditions: BackupConditions, target: Path, *, since: Path | None = None
) -> None:
    """Take a base backup of the running ``cluster`` into the new folder ``target``.

    ``since``: the manifest of the backup that it adds to. The WAL is left out, because it is archived;
    pg_basebackup ends when it has been. Raises ClusterError."""
    words = [
        f"--host={cluster.sockets}", f"--port={cluster.port}", f"--username={SUPERUSER}", "--no-password",
        f"--pgdata={target}", "--wal-method=none", f"--checkpoint={conditions.checkpoint}",
    ]  # fmt: skip
    if conditions.compress == "gzip":
        words += ["--format=tar", "--gzip"]
    elif conditions.compress == "server gzip":
        words += ["--format=tar", "--compress=server-gzip"]
    if conditions.rate_bytes_per_s is not None:
        words.append(f"--max-rate={conditions.rate_bytes_per_s >> 10}k")
    if since is not None:
        words.append(f"--incremental={since}")
    run_program(program(cluster.install, "pg_basebackup"), words, cluster.user)


def combine(install: Install, full: Path, increment: Path, target: Path, user: ServerUser | None) -> None:
    """Make a full backup of both in the new folder ``target``. Raises ClusterError."""
    run_program(program(install, "pg_combinebackup"), [str(full), str(increment), f"--output={target}"], user)


def verify(install: Install, backup: Path, user: ServerUser | None) -> None:
    """Compare the files of a backup, except its WAL, with its manifest. Raises ClusterError."""
    run_program(program(install, "pg_verifybackup"), ["--no-parse-wal", "--quiet", str(backup)], user)


def program(install: Install, name: str) -> str:
    """Path of a program of that install."""
    return str(Path(install.bindir) / name)


def run_program(path: str, words: Sequence[str], user: ServerUser | None) -> None:
    """Run a program to its end as ``user``. Raises ClusterError with what it said when it fails."""
    name = Path(path).name
    try:
        done = subprocess.run(
            [path, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            errors="replace", timeout=_LONGEST_S, env=child_environment(), cwd="/",
            start_new_session=True, **running_as(user),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ClusterError(f"{name} did not end within {_LONGEST_S:.0f} s") from None
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in said if "error:" in line] or said
        raise ClusterError(
            f"{name} failed: {(errors or [f'exit status {done.returncode}'])[0]}",
            detail="\n".join(said[-_SAID_LINES:]) or None,
        )
