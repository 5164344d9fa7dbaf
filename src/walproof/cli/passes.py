"""Progress of passes over WAL: a bar on stderr with bytes, rate and time left, if that is a terminal and
reading takes longer than a second. Otherwise nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from walproof.units import format_bytes

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from walproof.wal.progress import Observe

_SHOWN_AFTER_S = 1.0


class PassProgress:
    """Context manager around everything that reads WAL in a command; ``observe`` is what passes are given.

    ``what`` stands before the bar.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._began = clock()
        self._done = 0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> PassProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def observe(self) -> Observe | None:
        """None if nobody would see it."""
        return self._show if sys.stderr.isatty() else None

    def give_way(self) -> None:
        """Take the bar away: a result follows where it stands. It is back after a second without one."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        self._began = self._clock()

    def _show(self, done: int, total: int) -> None:
        if self._bar is None:
            if self._clock() - self._began < _SHOWN_AFTER_S:
                return
            self._start()
        assert self._bar is not None
        assert self._task is not None
        if not total:
            return  # files are being listed
        if done < self._done:
            # Another pass, whose time has nothing to do with that of the one before.
            self._bar.reset(self._task)
        self._done = done
        said = f"{format_bytes(min(done, total))} of {format_bytes(total)}"
        if speed := self._bar.tasks[0].speed:
            said += f", {format_bytes(speed)}/s"
        self._bar.update(self._task, completed=min(done, total), total=total, said=said)

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn(self._what, markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[said]}", markup=False),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr, highlight=False),
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, said="")
        self._bar.start()
