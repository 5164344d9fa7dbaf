"""Signals to processes that walproof did not start itself: the children of a server, what a killed lab left.

The number of a process that ended may be another's by the time of a signal. So a handle is opened first
(pidfd_open(2)), then it is checked that the number is the process that is meant, and the signal goes to the
handle: it reaches the process that was checked, or none. Children that walproof started itself keep their
number until they are waited for, so subprocess may signal them. Standard library only, as the reaper."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from walproof.errors import ClusterError

_LOOK_EVERY_S = 0.001
_GONE = frozenset({errno.ESRCH, errno.EINVAL, errno.ENOENT})
"""How pidfd_open says that a process has ended; in the last two cases a thread of another has its number."""
_NOT_RUNNING = frozenset("TtZX")
"""States in /proc/PID/stat of a process that is stopped, also by a tracer, or has ended."""


def send(pid: int, number: signal.Signals, is_meant: Callable[[], bool]) -> None:
    """Signal the process that has the number if ``is_meant`` says so, which is asked once it is held."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            if is_meant():
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def parent(pid: int) -> int | None:
    """The parent of a process; None when there is no process with that number. Raises ClusterError where no
    file can be opened any more."""
    fields = _stat(pid)
    return None if fields is None else int(fields[1])


def is_halted(pid: int) -> bool:
    """Whether it is stopped or has ended, so that it does nothing. Raises ClusterError as `parent`."""
    fields = _stat(pid)
    return fields is None or fields[0] in _NOT_RUNNING


def _lack(error: OSError) -> ClusterError:
    return ClusterError(
        f"processes of a server cannot be held: {error.strerror}",
        hint="ulimit -n raises the limit of open files." if error.errno == errno.EMFILE else None,
    )


def lack_of_handles() -> str | None:
    """Why no process can be held here, in the system's words; None where one can be.

    pidfd_open(2) came with Linux 5.3, some containers forbid it, and a Python that was built for an older
    kernel does not have it.
    """
    try:
        handle = os.pidfd_open(os.getpid())
        try:
            signal.pidfd_send_signal(handle, 0)
        finally:
            os.close(handle)
    except AttributeError:
        return "this Python was built without it"
    except OSError as error:
        return error.strerror or str(error)
    return None


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on; the name before it may hold anything. None: it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            # It would be taken for one that has ended.
            raise _lack(error) from error
        return None


class Descendants:
    """Handles of the children of a process, and of theirs, while the block lasts; a context manager.

    The process itself must be stopped, or it starts others meanwhile. Raises ClusterError where one of them
    cannot be held: it would go on, or live on, while the others are stopped or ended.
    """

    def __init__(self, ancestor: int) -> None:
        self._ancestor = ancestor
        self._handles: dict[int, int] = {}

    def __enter__(self) -> Descendants:
        try:
            self._hold()
        except BaseException as error:
            self._release()
            if isinstance(error, OSError):
                raise _lack(error) from error
            raise
        return self

    def _hold(self) -> None:
        held = -1
        # A child may start a process of its own between two looks, as an archiver does.
        while len(self._handles) > held:
            held = len(self._handles)
            for pid, above in self._new_ones():
                try:
                    self._handles[pid] = os.pidfd_open(pid)
                except OSError as error:
                    if error.errno not in _GONE:
                        raise
                    continue
                if parent(pid) != above:
                    os.close(self._handles.pop(pid))

    def _new_ones(self) -> list[tuple[int, int]]:
        """(process, parent) of descendants that have no handle yet, parents first. Each process of the
        machine is looked at once: a server may have hundreds of sessions."""
        children: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (above := parent(int(entry.name))) is not None:
                children.setdefault(above, []).append(int(entry.name))
        family = [self._ancestor]
        for member in family:
            family += children.get(member, [])
        return [(pid, member) for member in family for pid in children.get(member, [])
                if pid not in self._handles]  # fmt: skip

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _release(self) -> None:
        for handle in self._handles.values():
            os.close(handle)
        self._handles = {}

    def send(self, number: signal.Signals) -> None:
        """Signal those that have not ended."""
        for handle in self._handles.values():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, number)

    def wait_halted(self, deadline: float) -> None:
        """Return when each is stopped or has ended, or at that time of ``time.monotonic``."""
        while not all(map(is_halted, self._handles)) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)

    def wait_ended(self, deadline: float) -> None:
        """Return when none has memory or files any more, or at that time of ``time.monotonic``.

        Whoever inherits them may take its time to collect them.
        """
        for handle in self._handles.values():
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
