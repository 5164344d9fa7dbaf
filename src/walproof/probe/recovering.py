"""Looks at a server that recovers, by its data directory and /proc: it takes no connections yet.

postmaster.pid names the postmaster and, on its eighth line, its status (``starting``, ``ready``, ``standby``;
src/include/utils/pidfile.h). In 13 to 18 a server with standby.signal or recovery.signal is ``ready`` as soon
as it accepts read-only connections, and ``standby`` from the begin of its redo on if hot_standby is off
(process_pm_pmsignal in postmaster.c). Either lasts until it is promoted. A promotion removes these files
before the startup process ends, and then the status is ``ready``. The title of the startup process names the
segment that it reads (``startup recovering 000000010000000000000003``, XLogPageRead in xlogrecovery.c); from
14 on the process that checkpoints at the end says ``performing end-of-recovery checkpoint`` (CreateCheckPoint
in xlog.c).
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from walproof.errors import ClusterError
from walproof.facts.recovering import RecoveryPhase, RecoverySight
from walproof.probe.processes import (
    children,
    process_kind,
    read_io,
    read_proc,
    read_schedule,
    read_stat,
    read_title,
)
from walproof.probe.replay import segment_of
from walproof.probe.syncing import read_sync_place

_PID_FILE_BYTES = 4096
_STATUS_LINE = 8
_TRIES, _TRY_S = 20, 0.05
_CLOCKS_APART_S = 60.0
"""By how much the file's time may be off: somebody may set the clock."""
_STEPS = (100_000_000, 8192, 8192)
"""CPU in ns, bytes read and written: less is no progress of a read-only recovery. One that is paused wakes
every second, and reads signals that other processes send it; one that replays reads pages of WAL."""
_CHECKPOINT = "performing end-of-recovery checkpoint"
_WAITING = re.compile(r"waiting for ([0-9A-F]{24})")
"""In the title of a startup process that restores a segment from an archive, or waits until there is one
(XLogFileRead in xlogrecovery.c). The data directory is synced before the first one (StartupXLOG in
xlog.c)."""
_DEEPEST = 4
"""Levels of processes that a restore_command may start: a shell, a script, a program, its helper."""
_START_TIME = 19
"""Place of starttime in what `read_stat` returns (proc(5): the 22nd field)."""


class RecoveringServer:
    """The server of a data directory. Raises ClusterError when none runs there."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._pid, _ = self._read_pid_file()
        if not _serves(self._pid, data):
            raise _not_running(data, f'Process {self._pid} of "{data / "postmaster.pid"}" is not its server.')
        self._started = _start_time(self._pid)
        self._begun: int | None = None
        self._has_replayed = False
        self._disk_waits = 0

    def command(self) -> list[str]:
        """Words of the postmaster's command line, the program first; none where /proc does not show them."""
        words = (read_proc(self._pid, "cmdline") or b"").rstrip(b"\0").split(b"\0")
        return [os.fsdecode(word) for word in words if word]

    def look(self) -> RecoverySight:
        """See how far it is. Raises ClusterError when the server has ended."""
        at_s = time.monotonic()
        if _start_time(self._pid) != self._started or self._started is None:
            raise ClusterError(
                f"the server ended before its recovery did (process {self._pid})",
                hint="Its log says why; the next start begins recovery anew.",
            )
        _, status = self._read_pid_file()
        titles = {pid: read_title(pid) for pid in children(self._pid)}
        kinds = {pid: process_kind(title) for pid, title in titles.items()}
        startup = next((pid for pid, kind in kinds.items() if kind == "startup"), None)
        if startup is not None:
            self._begun = _start_time(startup) or self._begun
        up = self._phase_of(status, startup)
        if up is not None and up.is_last:
            return RecoverySight(at_s, up, None, self._running_s(), ())
        # In a read-only recovery the checkpointer writes restartpoints, also while nothing is replayed.
        working = ("startup",) if up is not None else ("startup", "checkpointer")
        workers = [pid for pid, kind in kinds.items() if kind in working]
        # A flush of much may take minutes within one call, in which no other counter moves.
        self._disk_waits += sum(map(_waits_for_disk, workers))
        # A restore_command that fetches from far away works for it.
        helpers = [] if startup is None else list(_descendants(startup))
        counts = [sum(counts) for counts in zip(*map(_work_of, [*workers, *helpers]), strict=True)]
        if up is not None:
            counts = [count // step for count, step in zip(counts, _STEPS, strict=True)]
        work = (*counts, self._disk_waits)
        segment = None if startup is None else segment_of(titles[startup])
        awaited = None if startup is None else _awaited(titles[startup])
        self._has_replayed = self._has_replayed or segment is not None or awaited is not None
        ends = segment is None and awaited is None and self._has_replayed
        if ends or any(_CHECKPOINT in titles[pid] for pid, kind in kinds.items() if kind == "checkpointer"):
            # For a moment after redo no title says anything.
            return RecoverySight(at_s, RecoveryPhase.CHECKPOINT, None, self._running_s(), work)
        if up is not None:
            return RecoverySight(at_s, up, segment, self._running_s(), work, awaited=awaited)
        if not self._has_replayed:
            place = None if startup is None else read_sync_place(startup)
            return RecoverySight(at_s, RecoveryPhase.BEFORE_REDO, None, self._running_s(), work, place)
        return RecoverySight(at_s, RecoveryPhase.REDO, segment, self._running_s(), work, awaited=awaited)

    def _phase_of(self, status: str, startup: int | None) -> RecoveryPhase | None:
        """The phase of a server that is up, by its status and the signal files; None while it is not up."""
        if (self.data / "standby.signal").exists():
            # It goes before recovery.signal (readRecoverySignalFile in xlogrecovery.c).
            if status == "standby":
                return RecoveryPhase.WARM_STANDBY
            if status == "ready" and startup is not None and not self._is_after_crash():
                return RecoveryPhase.HOT_STANDBY
        if status != "ready":
            # With recovery.signal and hot_standby = off it is to take connections once it is at its target.
            return None
        if startup is None:
            return RecoveryPhase.OVER
        # Without these files it is a crash of a session after which the same postmaster recovers: the status
        # stays as it was.
        return RecoveryPhase.READ_ONLY if (self.data / "recovery.signal").exists() else None

    def _is_after_crash(self) -> bool:
        """Whether a session of a hot standby crashed, after which it recovers under the same postmaster: the
        server writes its status again when sessions may connect, and until then it is older than the startup
        process."""
        running_s = self._running_s()
        try:
            written_s = time.time() - (self.data / "postmaster.pid").stat().st_mtime
        except OSError:
            return False
        return running_s is not None and running_s + _CLOCKS_APART_S < written_s

    def _running_s(self) -> float | None:
        """Seconds since the startup process began; None if it was gone before the first look."""
        if self._begun is None:
            return None
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self._begun / os.sysconf("SC_CLK_TCK")

    def _read_pid_file(self) -> tuple[int, str]:
        """Process id and status."""
        for _ in range(_TRIES):
            lines = _read_small(self.data / "postmaster.pid", self.data).splitlines()
            if lines:
                break
            # The server makes the file, and then writes to it.
            time.sleep(_TRY_S)
        if not lines or not lines[0].isdigit():
            raise _not_running(self.data, f'"{self.data / "postmaster.pid"}" names no process.')
        return int(lines[0]), lines[_STATUS_LINE - 1].strip() if len(lines) >= _STATUS_LINE else "starting"


def _read_small(path: Path, data: Path) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _not_running(data, f'There is no "{path}".') from None
    except OSError as error:
        raise ClusterError(f'could not read "{path}": {error.strerror}') from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ClusterError(f'"{path}" is not a regular file')
        return os.read(file, _PID_FILE_BYTES).decode(errors="replace")
    finally:
        os.close(file)


def _not_running(data: Path, detail: str) -> ClusterError:
    return ClusterError(
        f'no server runs in "{data}"',
        detail=detail,
        hint="Name the data directory of a server that was started and recovers (SHOW data_directory). In "
        "containers the server's processes have to be visible: share its PID namespace.",
    )


def _awaited(title: str) -> str | None:
    found = _WAITING.search(title)
    return None if found is None else found[1]


def _descendants(pid: int) -> Iterator[int]:
    """The processes that one has started, and those that these have, a few levels deep."""
    level = [pid]
    for _ in range(_DEEPEST):
        level = [child for parent in level for child in children(parent)]
        yield from level


def _serves(pid: int, data: Path) -> bool:
    """Whether the process is a postmaster; and of this directory, its working directory, if that is shown."""
    if (read_proc(pid, "comm") or b"").strip() not in (b"postgres", b"postmaster"):
        return False
    try:
        return Path(f"/proc/{pid}/cwd").samefile(data)
    except OSError:
        return True


def _start_time(pid: int) -> int | None:
    """Ticks from the machine's start to the process's; None when it has ended."""
    fields = read_stat(pid)
    return None if fields is None or fields[0] in (b"Z", b"X") else int(fields[_START_TIME])


def _waits_for_disk(pid: int) -> bool:
    """Whether it is in a sleep that no signal ends (proc(5), state D), as while a disk works for it."""
    fields = read_stat(pid)
    return fields is not None and fields[0] == b"D"


def _work_of(pid: int) -> tuple[int, int, int]:
    """CPU in ns, bytes read and bytes written; 0 where /proc does not show them."""
    cpu_ns, _ = read_schedule(pid) or (0, 0)
    counters = read_io(pid)
    return cpu_ns, counters.get("rchar", 0), counters.get("wchar", 0)
