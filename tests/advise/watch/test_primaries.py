"""Two watched servers of one system that both take writes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.watching import BEGAN, Server, assessor
from walproof.advise.watch.concern import Concern, Severity, Thresholds
from walproof.advise.watch.concerns import Concerns
from walproof.analysis.watch.primaries import other_primaries
from walproof.facts.watch import OtherPrimary, WatchLook

NAMES = ("db1", "db2")


def looked(timeline: int = 1, started: float = 3600, **changes: object) -> WatchLook:
    look = Server().look(5)
    assert look.checkpoint is not None
    checkpoint = replace(look.checkpoint, timeline=timeline)
    return replace(look, checkpoint=checkpoint, started_at=BEGAN - started, **changes)  # type: ignore[arg-type]


def told(old: WatchLook, new: WatchLook) -> list[Concern]:
    """The concerns about primaries of db1, which was left behind."""
    found = assessor()
    found.see([old])
    seen = found.assess(5.0, BEGAN + 5)
    seen = replace(seen, primaries=other_primaries([old, new], NAMES)[0])
    said = Concerns(Thresholds()).of(seen, None, None, {}, BEGAN + 5)
    return [concern for concern in said if concern.key.startswith("primary ")]


def test_who_was_left_behind_is_told_of_the_other() -> None:
    old, new = looked(1), looked(2, started=60)
    assert other_primaries([old, new], NAMES) == ((OtherPrimary("db2", 2, 1),), ())
    assert other_primaries([new, old], NAMES) == ((), (OtherPrimary("db1", 2, 1),))
    (concern,) = told(old, new)
    assert concern.severity is Severity.WARNING
    assert "db2 takes writes, too" in concern.sentence
    assert concern.evidence == ("timeline of the last checkpoint: 1 here, 2 there",)
    assert "standby of db2 (pg_rewind)" in concern.advice[0]


def test_on_one_timeline_nobody_knows_who_was_promoted() -> None:
    assert other_primaries([looked(), looked(started=60)], NAMES) == ((), ())


def test_of_three_each_is_told_of_those_ahead() -> None:
    found = other_primaries([looked(1), looked(3, started=60), looked(2, started=30)], ("a", "b", "c"))
    assert [[other.name for other in each] for each in found] == [["b", "c"], [], ["b"]]


@pytest.mark.parametrize(
    "new",
    [
        looked(2, started=60, is_in_recovery=True),
        looked(2, started=60, system_identifier="2"),
        looked(2, started=60, system_identifier=None),
        # The same server under another name.
        looked(2, started=3600),
        replace(looked(2, started=60), checkpoint=None),
    ],
)
def test_what_are_no_two_primaries(new: WatchLook) -> None:
    assert told(looked(1), new) == []


def test_who_does_not_answer_takes_part_in_nothing() -> None:
    assert other_primaries([looked(1), None], NAMES) == ((), ())
