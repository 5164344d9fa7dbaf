"""Where a process spends its CPU: stacks are counted while it runs, by perf if possible, else by looking at
/proc.

perf unwinds by the frame information that every build has (``--call-graph dwarf``), so it sees the callers in
builds without frame pointers. Where it is absent or refused, /proc/PID/stack is read in a loop: kernel
functions only, and "in the server itself" for the rest. A profiled process is slowed down: nothing else is
measured meanwhile.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from walproof.errors import ProbeError
from walproof.facts.profile import KERNEL_MARK
from walproof.privilege.environment import child_environment
from walproof.probe.processes import read_proc
from walproof.probe.startup import state_of

IN_SERVER = "in the server itself"
CUT_SHORT = "(caller not known)"
_ROOT = "StartupXLOG"
"""Its callers are the same in every stack."""
_HZ = 4999
"""Chosen so that it is not a multiple of any timer of the server."""
_POLL_S = 0.002
_ATTACH_PATIENCE_S = 10.0
_READ_PATIENCE_S = 120.0
_KERNEL_SPACE = 1 << 63
_LEAST_SHARE = 0.002
"""The least share of all samples; a rarer stack is counted for its caller."""

Stacks = Mapping[str, int]
"""``PerformWalRecovery;heap_redo;ksys_lseek_[k]`` -> samples, the outermost function first."""


class Profiler(Protocol):
    """Counts stacks of one process from the moment that it is made."""

    method: str
    """``perf`` or ``kernel``."""

    def stop(self) -> Stacks:
        """End, and return what was counted. Raises ProbeError if nothing was."""

    def abandon(self) -> None:
        """End without a result."""


def begin_profile(pid: int, folder: Path) -> tuple[Profiler | None, str | None]:
    """Begin to count stacks of ``pid``. Returns a profiler, and why it is not the best one; the profiler may
    be None. perf's file is put into ``folder``."""
    # perf opens its own events before it looks for the process, and so seems to have begun.
    if not Path(f"/proc/{pid}").exists():
        return None, f"process {pid} is gone: there is no profile"
    try:
        return PerfProfiler(pid, folder), None
    except ProbeError as error:
        refused = error.message
    if _kernel_stack(pid) is None:
        return None, f"{refused}, and /proc shows no kernel stacks: there is no profile"
    return KernelProfiler(pid), f"{refused}: kernel stacks were sampled instead"


class PerfProfiler:
    """``perf record``. Raises ProbeError when perf is absent or may not observe the process."""

    method = "perf"

    def __init__(self, pid: int, folder: Path) -> None:
        perf = shutil.which("perf")
        if perf is None:
            raise ProbeError("perf is not installed")
        self._perf = perf
        self._file = folder / "perf.data"
        self._process = subprocess.Popen(
            [perf, "record", "--freq", str(_HZ), "--call-graph", "dwarf", "--pid", str(pid),
             "--output", str(self._file)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env=child_environment(),
        )  # fmt: skip
        try:
            self._wait_until_attached()
        except BaseException:
            self.abandon()
            raise

    def stop(self) -> Stacks:
        """End perf and read what it recorded."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        try:
            _, said = self._process.communicate(timeout=_READ_PATIENCE_S)
            # Functions that were inlined are left out: finding them takes minutes where there is debug
            # information.
            done = subprocess.run(
                [self._perf, "script", "--input", str(self._file), "--fields", "ip,sym", "--no-inline"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
                timeout=_READ_PATIENCE_S, env=child_environment(),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            self.abandon()
            raise ProbeError("perf did not end in time") from None
        stacks = fold_perf(done.stdout)
        if not stacks:
            refused = _first_line(done.stderr)
            raise ProbeError(
                f"perf recorded nothing: {refused or 'the process hardly ran'}", detail=said.strip() or None
            )
        return stacks

    def abandon(self) -> None:
        """End perf."""
        if self._process.poll() is None:
            self._process.kill()
        assert self._process.stderr is not None
        if not self._process.stderr.closed:
            self._process.communicate()

    def _wait_until_attached(self) -> None:
        deadline = time.monotonic() + _ATTACH_PATIENCE_S
        while self._process.poll() is None and time.monotonic() < deadline:
            if _has_events(self._process.pid):
                return
            time.sleep(_POLL_S)
        said = ""
        if self._process.poll() is not None:
            _, said = self._process.communicate()
        raise ProbeError(f"perf may not observe the process: {_first_line(said) or 'it did not begin'}")


class KernelProfiler:
    """/proc/PID/stack, read in a loop while the process is running or waits for the disk."""

    method = "kernel"

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._counts: Counter[str] = Counter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="walproof-profile", daemon=True)
        self._thread.start()

    @property
    def samples(self) -> int:
        """How many stacks have been counted."""
        return sum(self._counts.values())

    def stop(self) -> Stacks:
        """End sampling."""
        self.abandon()
        if not self._counts:
            raise ProbeError("no kernel stack was seen: the process hardly ran")
        return _without_rare(self._counts)

    def abandon(self) -> None:
        """End sampling."""
        self._stopping.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stopping.wait(_POLL_S):
            if state_of(self._pid) not in ("R", "D"):
                continue
            frames = _kernel_stack(self._pid)
            if frames is None:
                return
            self._counts[";".join(frames) if frames else IN_SERVER] += 1


def fold_perf(text: str) -> Stacks:
    """Stacks of ``perf script --fields ip,sym``: blocks of lines, the innermost function first."""
    counts: Counter[str] = Counter()
    for block in text.split("\n\n"):
        frames = []
        for line in block.splitlines():
            address, _, symbol = line.strip().partition(" ")
            if not address:
                continue
            is_kernel = int(address, 16) >= _KERNEL_SPACE and symbol != "[unknown]"
            # llseek@GLIBC_2.2.5: the version of a symbol is of no interest.
            name = symbol.partition("@")[0].replace(";", ",")
            frames.append(f"{name}{KERNEL_MARK if is_kernel else ''}")
        if not frames:
            continue
        frames.reverse()
        if _ROOT in frames:
            frames = frames[frames.index(_ROOT) :]
        else:
            frames = [CUT_SHORT, *(frame for frame in frames if frame != "[unknown]")]
        counts[";".join(frames)] += 1
    return _without_rare(counts)


def _without_rare(counts: Mapping[str, int]) -> Stacks:
    """The same samples, in which a rare stack is counted for its caller."""
    least = _LEAST_SHARE * sum(counts.values())
    kept: Counter[str] = Counter(counts)
    deepest = max((stack.count(";") for stack in kept), default=0)
    for depth in range(deepest, 0, -1):
        for stack in [
            candidate for candidate, count in kept.items() if candidate.count(";") == depth and count < least
        ]:
            kept[stack.rpartition(";")[0]] += kept.pop(stack)
    return dict(kept)


def _kernel_stack(pid: int) -> list[str] | None:
    """The kernel functions that the process is in, the outermost first; None when they are not shown."""
    text = read_proc(pid, "stack")
    if text is None:
        return None
    names = [line.split(b"] ", 1)[-1].split(b"+")[0].decode() for line in text.splitlines() if line]
    return [f"{name}{KERNEL_MARK}" for name in reversed(names)]


def _has_events(pid: int) -> bool:
    """Whether perf has opened its counters."""
    try:
        return any("perf_event" in str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else ""
