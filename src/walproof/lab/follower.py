"""What a study asks of a standby that it measures, wherever that standby runs.

A study may not look for a standby's processes or connect to it: it may be on another host. All that it needs
is here, done on the standby's own machine by `FollowerHere`. A host of a cluster has one of these and answers
for it (``walproof.hosts.standby_host``), so that both are measured by the same code.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Protocol

from walproof.errors import ProbeError
from walproof.postgres.build import has_extension
from walproof.postgres.cpu_share import CpuShare
from walproof.postgres.standby import Standby
from walproof.probe.cpu import CpuProbe
from walproof.probe.processes import startup_pid
from walproof.probe.protocol import Subject
from walproof.probe.startup import read_startup
from walproof.probe.stream import StandbyEye, StandbyLook
from walproof.units import Lsn
from walproof.workload.books import Books, check_books
from walproof.workload.ledger import Record


class Follower(Protocol):
    """A running standby. A method raises ClusterError or ProbeError; HostError if its host is lost."""

    def wait_for_replay(self, lsn: Lsn) -> None:
        """Return when it has replayed up to ``lsn``."""

    def received(self) -> Lsn:
        """The end of the WAL that it has. It must accept connections."""

    def begin_looking(self, replay_cpu_share: float) -> None:
        """Find its startup process, which from now on gets at most that share of a core."""

    def look(self) -> StandbyLook:
        """What it shows now, between ``begin_looking`` and ``end_looking``."""

    def end_looking(self) -> None:
        """Let its startup process run as before. May be called at any time."""

    def begin_cpu(self) -> None:
        """Count CPU time of its processes from now on."""

    def end_cpu(self) -> float:
        """CPU that they have used since then, in seconds of one core for each core of its machine."""

    def promote(self) -> float:
        """Make it a primary; return the seconds that this took."""

    def kill(self) -> None:
        """End it as a power cut would."""

    def check_books(self, known: Record) -> Books:
        """Compare the ledger that it has, once promoted, with what clients were told."""

    def log_tail(self) -> str:
        """The last lines of its log."""


@contextmanager
def looked_at(follower: Follower, replay_cpu_share: float) -> Iterator[None]:
    """It can be looked at for as long as the block lasts."""
    follower.begin_looking(replay_cpu_share)
    try:
        yield
    finally:
        follower.end_looking()


class FollowerHere:
    """A standby of this machine."""

    def __init__(self, standby: Standby, settings: Mapping[str, str]) -> None:
        """``settings``: those that it was started with."""
        self._standby = standby
        self._answers = settings.get("hot_standby", "on") != "off"
        self._looking = ExitStack()
        self._eye: StandbyEye | None = None
        self._cpu: CpuProbe | None = None
        self._cpu_since_s = 0.0

    def wait_for_replay(self, lsn: Lsn) -> None:
        """As the method of the standby itself."""
        self._standby.wait_for_replay(lsn)

    def received(self) -> Lsn:
        """The standby itself is asked, because nobody else may be left."""
        with self._standby.connect() as session:
            row = session.execute(
                "SELECT greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())"
            ).fetchone()
        assert row is not None
        return Lsn.parse(str(row[0]))

    def begin_looking(self, replay_cpu_share: float) -> None:
        """Raises ProbeError if its startup process cannot be seen."""
        pid = startup_pid(self._standby.pid)
        if pid is None:
            raise ProbeError("the standby's startup process cannot be seen in /proc")
        if replay_cpu_share < 1:
            self._looking.enter_context(CpuShare(pid, replay_cpu_share, lambda: _cpu_s(pid)))
        self._eye = StandbyEye(self._standby.conninfo if self._answers else None, pid)
        self._looking.callback(self._eye.close)

    def look(self) -> StandbyLook:
        """Raises ProbeError."""
        assert self._eye is not None, "begun"
        return self._eye.look()

    def end_looking(self) -> None:
        """The session ends, too, and the counting of CPU."""
        if self._cpu is not None:
            self._cpu.abandon()
        self._looking.close()

    def begin_cpu(self) -> None:
        """Raises ProbeError."""
        standby = self._standby
        self._cpu = CpuProbe()
        self._cpu_since_s = time.monotonic()
        # Its load generator cannot be on this machine: walproof stands in for it, and is not counted.
        self._cpu.start(
            Subject(
                standby.conninfo, standby.data, standby.log, standby.pid, os.getpid(),
                standby.install.version_num,
            )
        )  # fmt: skip

    def end_cpu(self) -> float:
        """As a share of all cores."""
        assert self._cpu is not None, "begun"
        used_s = self._cpu.stop().metrics["server_cpu_s"]
        return used_s / (time.monotonic() - self._cpu_since_s) / (os.cpu_count() or 1)

    def promote(self) -> float:
        """The time by this machine's clock."""
        begun = time.monotonic()
        self._standby.promote()
        return time.monotonic() - begun

    def kill(self) -> None:
        """As the method of the standby itself."""
        self._standby.kill()

    def check_books(self, known: Record) -> Books:
        """Compare through a session of the superuser over its socket."""
        # Its synchronous_standby_names is empty, so nothing waits there.
        with self._standby.connect() as session:
            return check_books(session, known, has_amcheck=has_extension(self._standby.install, "amcheck"))

    def log_tail(self) -> str:
        """As the method of the standby itself."""
        return self._standby.log_tail()


def _cpu_s(pid: int) -> float | None:
    startup = read_startup(pid)
    return None if startup is None else startup.cpu_s
