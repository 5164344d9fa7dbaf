"""Who waits for standbys, over several looks: a transaction that stays is told from many that follow."""

from __future__ import annotations

from typing import Any, cast

from walproof.facts.transactions import STALLED_S
from walproof.observe.asking import Asking
from walproof.observe.transactions import SynchronousReader


class _Answers:
    """What a server answered to the three questions, look by look."""

    def __init__(self, *sessions: tuple[float, list[str], list[float]]) -> None:
        self._rows: list[tuple[Any, ...]] = []
        for now, waiting, commits_s in sessions:
            self._rows += [("near", "on"), (["near"], [], []), (now, 60.0, waiting, commits_s)]

    def row(self, _about: str, _query: str) -> tuple[Any, ...]:
        return self._rows.pop(0)


def _looks(*sessions: tuple[float, list[str], list[float]]) -> list[tuple[int, float]]:
    reader, ask = SynchronousReader(), cast(Asking, _Answers(*sessions))
    found = [reader.read(ask) for _ in sessions]
    return [(seen.stalled, seen.stalled_s) for seen in found if seen is not None]


def test_a_transaction_that_waits_in_every_look_is_stalled() -> None:
    first, second = ["7 began xact-1"], ["7 began xact-1", "8 began xact-9"]
    looks = _looks((100.0, first, [0.0]), (100.0 + STALLED_S, second, [0.0, 0.0]))
    assert looks == [(0, 0.0), (1, STALLED_S)]


def test_a_procedure_that_commits_often_is_not() -> None:
    """Its statement began long ago, and each of its transactions waits for a moment."""
    looks = _looks(*((at, [f"7 began xact-{at}"], [0.0]) for at in (100.0, 110.0, 120.0)))
    assert looks == [(0, 0.0)] * 3


def test_a_commit_waits_since_it_began() -> None:
    assert _looks((100.0, ["7 began xact-1"], [12.0])) == [(1, 12.0)]
