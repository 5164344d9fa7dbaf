"""A server that will soon take no transactions is in danger, however little WAL freezing would write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.server.windows import found, healthy, with_settings
from walproof.advise.server.advice import Advice, Fine, Sure, Weight
from walproof.facts.server import ServerDatabase, ServerTable, ServerWindow
from walproof.facts.transactions import HorizonHolder


def _window(*tables: ServerTable) -> ServerWindow:
    window = with_settings(
        healthy(), autovacuum_freeze_max_age="200000000", autovacuum_multixact_freeze_max_age="400000000"
    )
    return replace(window, tables=tables)


def _table(age: int, **changes: float) -> ServerTable:
    table = ServerTable("public.old", 1 << 30, False, 0, 0, 0, 0, 10**6, 100, None, 16500, age)
    return replace(table, **changes)  # type: ignore[arg-type]


def test_a_table_that_nobody_can_freeze_is_a_danger_whatever_its_size() -> None:
    """The stake was less than an hour of WAL, so all was fine ten million transactions before the end."""
    advice = found("freezing", _window(_table(2_130_000_000)))
    assert isinstance(advice, Advice)
    assert (advice.weight, advice.sure) == (Weight.DANGER, Sure.HIGH)
    assert advice.evidence[0].startswith("Not frozen for long: public.old (2,130,000,000 transactions old).")
    assert "After about 14,483,648 more transactions" in advice.evidence[1]
    assert "VACUUM public.old;" in advice.steps
    assert not any(step.startswith("VACUUM (FREEZE)") for step in advice.steps)


def test_nobody_is_named_who_holds_nothing_back() -> None:
    """The oldest of ordinary sessions, while something else keeps VACUUM from freezing."""
    young = HorizonHolder("session", "4711", "active", 0.1, 100)
    advice = found("freezing", replace(_window(_table(2_130_000_000)), horizon=(young,)))
    assert isinstance(advice, Advice)
    assert "4711" not in " ".join(advice.evidence)


def test_a_table_that_has_just_passed_a_high_limit_is_no_danger() -> None:
    window = with_settings(
        _window(_table(1_510_000_000, bytes=5 << 30)), autovacuum_freeze_max_age="1500000000"
    )
    advice = found("freezing", window)
    assert isinstance(advice, Advice)
    assert advice.weight is Weight.GAIN


@pytest.mark.parametrize(
    ("database", "words"),
    [
        (ServerDatabase("other", 1_200_000_000, 5), "database other (1,200,000,000 transactions old)"),
        (ServerDatabase("other", 5, 900_000_000), "database other (900,000,000 multixacts old)"),
        (ServerDatabase("other", 390_000_000, 790_000_000), None),
    ],
)
def test_other_databases_count(database: ServerDatabase, words: str | None) -> None:
    advice = found("freezing", replace(_window(_table(1000)), databases=(database,)))
    assert isinstance(advice, Advice) is (words is not None), advice
    if isinstance(advice, Advice):
        assert words is not None
        assert words in advice.evidence[0]
        assert "-- connected to database other: VACUUM;" in advice.steps


def test_a_high_limit_is_no_danger_before_it_is_reached() -> None:
    old = _table(1_200_000_000, bytes=5 << 30)
    window = with_settings(_window(old), autovacuum_freeze_max_age="1500000000")
    advice = found("freezing", window)
    assert isinstance(advice, Advice)
    assert advice.weight is Weight.GAIN


def test_what_is_past_its_limit_is_not_fine() -> None:
    small = _table(320_000_000, bytes=1 << 20)
    assert isinstance(found("freezing", _window(small)), Advice)
    # Its own limit is low: autovacuum comes within a minute.
    own = _table(200_000, bytes=1 << 20, freeze_share=2.0)
    assert isinstance(found("freezing", _window(own)), Fine)
