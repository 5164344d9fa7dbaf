"""The folder that a server archives its WAL into, and a restored one gets it from."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from walproof.errors import ClusterError
from walproof.postgres.cluster import Cluster
from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser

_PATIENCE_S = 60.0
_POLL_S = 0.02
_PART = ".part"
"""Ending of a segment that is still being copied."""


@dataclass(frozen=True, slots=True)
class ArchiveFolder:
    """A folder of the servers' user."""

    folder: Path
    user: ServerUser | None

    def make(self) -> None:
        """Make the empty folder."""
        with acting_as(self.user):
            self.folder.mkdir(mode=0o700)

    @property
    def archiving(self) -> dict[str, str]:
        """Settings of the server that archives."""
        place = f"{self._quoted}/%f"
        copying = f"cp %p {place}{_PART} && mv {place}{_PART} {place}"
        return {"archive_mode": "on", "archive_command": copying}

    @property
    def restoring(self) -> dict[str, str]:
        """Settings of the server that restores."""
        return {"archive_mode": "off", "restore_command": f"cp {self._quoted}/%f %p"}

    @property
    def _quoted(self) -> str:
        # The server replaces %p and %f, and gives the rest to a shell.
        return shlex.quote(str(self.folder)).replace("%", "%%")

    def count_bytes(self) -> int:
        """Bytes of everything archived: whole segments, without what is being copied."""
        with acting_as(self.user):
            whole = (file for file in self.folder.iterdir() if not file.name.endswith(_PART))
            return sum(file.lstat().st_size for file in whole)

    def finish(self, cluster: Cluster) -> None:
        """Make the running server archive all WAL up to now. Raises ClusterError if it does not."""
        with cluster.connect() as session:
            # A switch does nothing in a segment that holds no record yet; a transaction id writes one.
            session.execute("SELECT txid_current()")
            row = session.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()
            assert row is not None
            deadline = time.monotonic() + _PATIENCE_S
            while time.monotonic() < deadline:
                # Names of segments of one timeline are in the order of their WAL.
                seen = session.execute(
                    'SELECT last_archived_wal >= %s COLLATE "C" FROM pg_stat_archiver', row
                ).fetchone()
                assert seen is not None
                if seen[0]:
                    return
                time.sleep(_POLL_S)
        raise ClusterError(
            f"segment {row[0]} was not archived within {_PATIENCE_S:.0f} s", detail=cluster.log_tail()
        )
