"""Ranges of predictions from short recordings hold what the long ones say that they were cut out of.

``bench/advise/cuts.py`` made the facts: real WAL, of which only what simulated servers would write is kept.
"""

from __future__ import annotations

import functools
import json
import lzma
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tests.advise.server.stored import CUTS, fact
from walproof.analysis.whatif import Question, ServerPrediction, Study, study
from walproof.wal.whatif import WhatIf

ENOUGH = 4
"""Whole cycles of the long recording from which on it is taken for the truth."""


@dataclass(frozen=True)
class Window:
    """A recording that was cut out of a long one; the long one itself has a share of 1."""

    load: str
    begins: float
    share: float
    commits: int
    study: Study

    def each(self, amount: float) -> float:
        """An amount of a prediction as bytes a transaction."""
        return amount * (self.study.hours or 1.0) / self.commits


@dataclass(frozen=True)
class Pair:
    """What a window predicts of one server, and what the long recording says of it."""

    window: Window
    told: ServerPrediction
    truth: float

    @property
    def is_inside(self) -> bool:
        """Whether the range holds it."""
        span = self.told.wal_span
        return self.window.each(span.low) <= self.truth <= self.window.each(span.high)

    @property
    def error(self) -> float:
        """Of the prediction."""
        return self.window.each(self.told.wal_bytes) / self.truth - 1


@functools.cache
def _pairs() -> Sequence[Pair]:
    windows = []
    for line in lzma.decompress(CUTS.read_bytes()).decode().splitlines():
        kept = json.loads(line)
        found = study(fact(WhatIf, kept["found"]), fact(Question, kept["question"]))
        windows.append(Window(kept["load"], kept["begins"], kept["share"], kept["commits"], found))
    wholes = {window.load: window for window in windows if window.share == 1.0}
    return [
        Pair(window, told, wholes[window.load].each(whole.wal_bytes))
        for window in windows
        if window.share < 1.0
        for target, told in window.study.predictions.items()
        if (whole := wholes[window.load].study.predictions[target]).cycles >= ENOUGH
    ]


def test_nine_of_ten_ranges_hold_what_the_long_recording_says() -> None:
    pairs = _pairs()
    assert len(pairs) > 100
    by_load = defaultdict(list)
    for pair in pairs:
        by_load[pair.window.load].append(pair.is_inside)
    assert all(statistics.mean(inside) >= 0.9 for inside in by_load.values()), {
        load: (sum(inside), len(inside)) for load, inside in by_load.items()
    }


def test_predictions_from_whole_cycles_are_near_and_not_one_sided() -> None:
    errors = [pair.error for pair in _pairs() if pair.told.has_whole_cycles]
    assert len(errors) > 50
    assert abs(statistics.median(errors)) < 0.03
    assert statistics.median(map(abs, errors)) < 0.06


def test_without_a_whole_cycle_the_figure_is_an_upper_bound_and_says_so() -> None:
    short = [pair for pair in _pairs() if not pair.told.has_whole_cycles]
    assert short
    assert all(pair.told.confidence == "low" for pair in short)
    assert statistics.mean(pair.is_inside for pair in short) >= 0.9


def test_ranges_are_narrow_where_there_are_many_cycles() -> None:
    wide = [
        pair.told.wal_span.high / pair.told.wal_span.low
        for pair in _pairs()
        if pair.told.cycles >= 12 and pair.told.target.wal_compression == "as recorded"
    ]
    assert wide
    assert statistics.median(wide) < 1.6
