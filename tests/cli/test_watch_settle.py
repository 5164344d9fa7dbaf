"""How long a single look takes: until all is known, and no longer than its bound, whoever hangs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from walproof.cli import watch_loop
from walproof.cli.watched import Fleet


class Clock:
    """Time that passes only where somebody waits."""

    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Servers:
    """A fleet that has settled, and is suspected, until those times; its first view takes as long."""

    def __init__(self, clock: Clock, first_s: float, settled_s: float, suspected_s: float) -> None:
        self._clock, self._first_s = clock, first_s
        self._settled_s, self._suspected_s = settled_s, suspected_s

    def views(self, patience_s: float = 0.0) -> list[Any]:
        self._clock.now_s += min(patience_s, self._first_s)
        return [SimpleNamespace(is_suspected=self._clock.now_s < self._suspected_s)]

    @property
    def is_settled(self) -> bool:
        return self._clock.now_s >= self._settled_s


@pytest.mark.parametrize(
    ("first_s", "settled_s", "suspected_s", "least_s", "most_s"),
    [
        (0.1, 0.0, 0.0, 2.0, 2.2),
        (0.1, 5.0, 0.0, 5.0, 5.3),
        (0.1, 5.0, 12.0, 12.0, 12.6),
        (0.1, 0.0, 1e9, 30.0, 30.6),
        (60.0, 1e9, 1e9, 30.0, 30.6),
    ],
    ids=["all is well", "WAL is behind", "a hint", "a hint for ever", "one hangs, one is behind"],
)
def test_a_single_look_ends(
    first_s: float, settled_s: float, suspected_s: float, least_s: float, most_s: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    clock = Clock()
    monkeypatch.setattr(watch_loop, "time", clock)
    watch_loop._settle(cast(Fleet, Servers(clock, first_s, settled_s, suspected_s)), 2.0)
    assert least_s <= clock.now_s <= most_s
