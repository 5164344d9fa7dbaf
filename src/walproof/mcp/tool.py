"""A tool, a call of it, and what it answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from walproof.errors import AnalysisError
from walproof.units import format_bytes, format_duration

_TOLD_EVERY_S = 1.0


class ToolArguments(BaseModel):
    """What a tool may be asked, each field with its description. A field that is not known is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Nothing(ToolArguments):
    """Arguments of a tool that takes none."""


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """The part of an earlier answer that a result is."""

    answer: str
    at: str
    first: int


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool found: data for JSON, or a text."""

    result: object
    notes: tuple[str, ...] = ()
    """Sentences on how to read it."""
    command: tuple[str, ...] = ()
    """Words of the command that gives the same result, for a person to repeat it."""
    part: AnswerPart | None = None
    """None if the answer is new."""


class Call:
    """One call of a tool, as its function sees it: when it has to end, and to whom it tells its progress."""

    def __init__(self, longest_s: float, tell: Callable[[float, float | None, str], None]) -> None:
        """``tell`` gets progress, its total if known, and a sentence."""
        self._longest_s = longest_s
        self._until_s = time.monotonic() + longest_s
        self._tell = tell
        self._told_s = time.monotonic()
        self._stopped = threading.Event()
        self._passes = 0
        self._before = 0

    def stop(self) -> None:
        """Say that nobody waits for the answer any more; called from another thread."""
        self._stopped.set()

    def look(self) -> None:
        """Call it often. Raises AnalysisError when the call has to end."""
        if self._stopped.is_set():
            raise AnalysisError("the call was given up")
        if time.monotonic() > self._until_s:
            raise AnalysisError(
                f"the call took longer than {format_duration(self._longest_s)}, and was ended",
                hint="Ask for less (start, end, fewer paths), or have the command run by a person. Whoever "
                "runs walproof mcp may allow more: --time-limit.",
            )

    @property
    def left_s(self) -> float:
        """Seconds until the call has to end."""
        return self._until_s - time.monotonic()

    def observe(self, done: int, total: int) -> None:
        """For passes over WAL. Raises as `look`."""
        self.look()
        if done < self._before:
            self._passes += 1  # another pass, whose bytes begin anew
        self._before = done
        said = f"read {format_bytes(done)}" + (f" of {format_bytes(total)}" if total else "")
        share = min(1.0, done / total) if total else 0.0
        self.say(self._passes + share, None, said)

    def say(self, progress: float, total: float | None, sentence: str) -> None:
        """Tell whoever waits about progress, once a second at most."""
        now = time.monotonic()
        if now - self._told_s >= _TOLD_EVERY_S:
            self._told_s = now
            self._tell(progress, total, sentence)


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that an assistant may ask."""

    name: str
    title: str
    description: str
    asked: type[ToolArguments]
    answer: Callable[[Any, Call], ToolAnswer]
    """Given what was asked. Raises WalproofError."""
    meets_server: bool = False
    """Whether it talks to a running server."""
