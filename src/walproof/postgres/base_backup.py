"""A base backup of a running cluster, by the low-level interface: start, copy, stop, write the label.

It works the same way on every version (manual, "Making a Base Backup Using the Low Level API").
pg_basebackup is not used: it refuses servers newer than itself, and the primary_conninfo that it writes
(``-R``) may hold words that an older libpq rejects (``sslsni`` before 14), so that the standby starts and
never streams.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psycopg

from walproof.errors import ClusterError, one_line
from walproof.facts import Install
from walproof.postgres.cluster import Cluster
from walproof.privilege.acting import acting_as
from walproof.privilege.environment import child_environment
from walproof.privilege.user import ServerUser, running_as
from walproof.units import Lsn

# What pg_basebackup leaves out as well (src/backend/backup/basebackup.c, excludeDirContents and
# excludeFiles): the server makes it again. WAL is left out because the standby gets it by streaming.
_EMPTIED = (
    "pg_wal", "pg_replslot", "pg_dynshmem", "pg_notify", "pg_serial", "pg_snapshots", "pg_stat_tmp",
    "pg_subtrans",
)  # fmt: skip
_LEFT_OUT = (
    "postmaster.pid", "postmaster.opts", "backup_label", "backup_label.old", "tablespace_map",
    "standby.signal", "recovery.signal", "backup_manifest", "walproof.conf",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BaseBackup:
    """What a base backup needs to become consistent: the WAL from ``start`` to ``stop``."""

    start: Lsn
    """Where the backup began (START WAL LOCATION of its label)."""
    stop: Lsn


def take_base_backup(source: Cluster, data: Path) -> BaseBackup:
    """Copy the running ``source`` into the new folder ``data``, which has its ``backup_label`` and no WAL.

    ``source`` may be a standby that accepts connections. Raises ClusterError.
    """
    start_call, stop_call = _calls(source.install)
    with source.connect() as session:
        try:
            # The session has to stay: the server ends a backup whose session goes away.
            begun = session.execute(start_call).fetchone()
            _copy_files(source.data, data, source.user)
            ended = session.execute(stop_call).fetchone()
        except psycopg.Error as error:
            raise ClusterError(
                f"base backup of PostgreSQL {source.install.version} failed: {one_line(error)}",
                detail=source.log_tail(),
            ) from error
    assert begun is not None
    assert ended is not None
    stop, label, tablespaces = ended
    if tablespaces:
        raise ClusterError(
            "a cluster with tablespaces cannot be copied",
            detail="Its copy would write into the tablespaces of the original.",
        )
    with acting_as(source.user):
        (data / "backup_label").write_text(str(label))
    return BaseBackup(Lsn.parse(str(begun[0])), Lsn.parse(str(stop)))


def _calls(install: Install) -> tuple[str, str]:
    """The SQL that starts a backup, with a fast checkpoint, and the SQL that ends it, without waiting for an
    archive."""
    if install.version_num >= 150000:
        return (
            "SELECT pg_backup_start('walproof', true)",
            "SELECT lsn, labelfile, spcmapfile FROM pg_backup_stop(false)",
        )
    return (
        "SELECT pg_start_backup('walproof', true, false)",
        "SELECT lsn, labelfile, spcmapfile FROM pg_stop_backup(false, false)",
    )


def _copy_files(source: Path, data: Path, user: ServerUser | None) -> None:
    copied = []
    with acting_as(user):
        data.mkdir(mode=0o700)
        for entry in sorted(source.iterdir()):
            if entry.name in _EMPTIED:
                (data / entry.name).mkdir(mode=0o700)
            elif entry.name not in _LEFT_OUT and not entry.name.startswith("pgsql_tmp"):
                copied.append(str(entry))
    done = subprocess.run(
        ["cp", "--archive", "--reflink=auto", "--", *copied, str(data)],
        capture_output=True, text=True, check=False, env=child_environment(), cwd="/",
        **running_as(user),
    )  # fmt: skip
    # A file that is removed while it is copied (of a dropped table, a relation cache) is made or removed by
    # the WAL of the backup.
    said = [line for line in done.stderr.splitlines() if not line.endswith("No such file or directory")]
    if done.returncode != 0 and (said or not done.stderr):
        shutil.rmtree(data, ignore_errors=True)
        raise ClusterError(
            f'could not copy the data directory "{source}"', detail="\n".join(said[-3:]) or None
        )
