"""A process that gets a small share of one core: stopped and continued, as a busy machine or a quota would.

    CPU used     ____/~~~~\\____      allowed: share x time. Above it the process is stopped (SIGSTOP),
    time         -->                 below it continued.

It needs no rights but those over the process. CPU that the process may use and does not is forgotten after a
moment, so that a process that idled does not run free for a while afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType

_PERIOD_S = 0.002
_SAVED_S = 0.05
"""How many seconds of its share a process may save up."""


class CpuShare:
    """Context manager: ``pid`` runs for ``share`` of the time at most, by its own account of CPU.

    ``cpu_s`` tells the CPU that it has used so far, in seconds; None when it is gone. Once the block has
    ended it runs as before.
    """

    def __init__(self, pid: int, share: float, cpu_s: Callable[[], float | None]) -> None:
        assert 0 < share <= 1, share
        self._share = share
        self._cpu_s = cpu_s
        # A handle, because by the time of a signal the number could be another process's (pidfd_open(2)).
        self._process = os.pidfd_open(pid)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._hold_back, name="walproof-cpu-share", daemon=True)

    def __enter__(self) -> CpuShare:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()
        self._send(signal.SIGCONT)
        os.close(self._process)

    def _hold_back(self) -> None:
        last_s, allowed_s, is_stopped = time.monotonic(), 0.0, False
        used_s = self._cpu_s()
        while used_s is not None and not self._ending.wait(_PERIOD_S):
            now_s, before_s = time.monotonic(), used_s
            used_s = self._cpu_s()
            if used_s is None:
                return
            allowed_s += (now_s - last_s) * self._share - (used_s - before_s)
            allowed_s = min(allowed_s, _SAVED_S * self._share)
            last_s = now_s
            if (allowed_s < 0) != is_stopped:
                is_stopped = allowed_s < 0
                self._send(signal.SIGSTOP if is_stopped else signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process, number)
