"""A standby whose upstream is on another host: its base backup comes over the network, as its WAL does.

BASE_BACKUP of the streaming protocol (manual, "Streaming Replication Protocol"), whose answer is a tar of the
data directory. pg_basebackup is not used, for the reasons given in ``base_backup.py``; some installs lack it.

    13, 14   two results (start, tablespaces), then COPY OUT of a tar, then a result (end)
    15 on    the same, but the COPY holds messages: n(ew archive), d(ata), p(rogress), m(anifest)
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from psycopg import pq

from walproof.errors import ClusterError
from walproof.postgres.base_backup import BaseBackup
from walproof.postgres.cluster import Cluster
from walproof.postgres.listening import FarUpstream
from walproof.postgres.standby import Standby
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.environment import child_environment
from walproof.privilege.user import ServerUser, running_as
from walproof.units import Lsn

_MESSAGES_SINCE = 150000


class FarStandby(Standby):
    """One standby of ``upstream``, built from a base backup of the primary."""

    def __init__(self, upstream: FarUpstream, workspace: Workspace, name: str, source: str) -> None:
        """``source``: the way to the primary (``listening.way_to``), from which the backup is taken."""
        super().__init__(upstream, workspace, name)
        self._source = source

    def build(self, source: Cluster | None = None) -> BaseBackup:
        """Raises ClusterError."""
        assert source is None, "its source is on another host"
        self._make_slot()
        backup = pull_base_backup(self._source, self.install.version_num, self.data, self.user)
        with acting_as(self.user):
            (self.data / "standby.signal").touch(mode=0o600)
            # What the primary was started with, at its own address.
            (self.data / "walproof.conf").unlink(missing_ok=True)
        return backup


def pull_base_backup(way: str, version_num: int, data: Path, user: ServerUser | None) -> BaseBackup:
    """Take a base backup of a server over the network into the new folder ``data``, without WAL.

    Raises ClusterError.
    """
    connection = pq.PGconn.connect(f"{way} replication=true".encode())
    try:
        if connection.status != pq.ConnStatus.OK:
            raise _failed(connection)
        has_messages = version_num >= _MESSAGES_SINCE
        connection.send_query(
            b"BASE_BACKUP (LABEL 'walproof', CHECKPOINT 'fast', WAIT false, MANIFEST 'no')"
            if has_messages
            else b"BASE_BACKUP LABEL 'walproof' FAST NOWAIT MANIFEST 'no'"
        )
        begun = _row(connection)
        tablespaces = connection.get_result()
        if tablespaces is None or tablespaces.status != pq.ExecStatus.TUPLES_OK:
            raise _failed(connection)
        if tablespaces.ntuples != 1:
            raise ClusterError("a cluster with tablespaces cannot be copied")
        copied = connection.get_result()
        if copied is None or copied.status != pq.ExecStatus.COPY_OUT:
            raise _failed(connection)
        unpack(_pieces(connection, has_messages), data, user)
        ended = _row(connection)
        while connection.get_result() is not None:
            pass
        return BaseBackup(begun, ended)
    finally:
        connection.finish()


def _row(connection: pq.abc.PGconn) -> Lsn:
    """The LSN that a result begins with; the end of a COPY may come before it."""
    while (result := connection.get_result()) is not None:
        if result.status == pq.ExecStatus.TUPLES_OK:
            return Lsn.parse((result.get_value(0, 0) or b"").decode())
        if result.status == pq.ExecStatus.FATAL_ERROR:
            break
    raise _failed(connection)


def _pieces(connection: pq.abc.PGconn, has_messages: bool) -> Iterator[memoryview]:
    while True:
        length, data = connection.get_copy_data(0)
        if length == -1:
            return
        if length < 0:
            raise _failed(connection)
        if not has_messages:
            yield data
        elif data[0] == ord("d"):
            yield data[1:]


def unpack(pieces: Iterator[memoryview], data: Path, user: ServerUser | None) -> None:
    """Unpack the pieces of a tar into the new folder ``data``. Raises ClusterError."""
    with acting_as(user):
        data.mkdir(mode=0o700)
    # Not a pipe, which would fill while nobody reads: where this host's clock is slow, tar says so of each
    # file.
    with tempfile.TemporaryFile() as complaints:
        tar = subprocess.Popen(
            ["tar", "--extract", "--file=-", f"--directory={data}", "--no-same-owner"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=complaints,
            env=child_environment(), cwd="/", **running_as(user),
        )  # fmt: skip
        assert tar.stdin is not None
        try:
            for piece in pieces:
                tar.stdin.write(piece)
            tar.stdin.close()
            is_whole = tar.wait() == 0
        except BrokenPipeError:
            is_whole = False
        finally:
            tar.kill()
            with contextlib.suppress(BrokenPipeError):
                tar.stdin.close()
            tar.wait()
        complaints.seek(0)
        said = complaints.read().decode(errors="replace").strip().splitlines()
    if not is_whole:
        raise ClusterError("could not unpack the base backup", detail=said[-1] if said else None)


def _failed(connection: pq.abc.PGconn) -> ClusterError:
    said = connection.error_message.decode(errors="replace").strip()
    return ClusterError(f"base backup over the network failed: {said or 'the server ended the session'}")
