"""Promises as they are typed: what is read, what is refused with which way out, what may be judged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walproof.analysis.toggled import TOTALS
from walproof.errors import StudyError, WalproofError
from walproof.facts import Load, Promise, Side, Statements, Throughput
from walproof.facts.codec import from_json, to_json
from walproof.facts.gate import (
    OF_SLICES,
    Gate,
    has_gate,
    judged_metrics,
    may_be_judged,
    parse_promise,
    parse_promises,
)

NAMES = st.sampled_from(
    ["tps", "tps.script2", "wal_bytes_per_txn", "cpu_us_per_txn.walwriter", "latency_ms_p99"]
)
LIMITS = st.floats(min_value=1e-6, max_value=1e6, allow_nan=False)
PROMISES = st.builds(Promise, NAMES, st.sampled_from(Side), LIMITS)


@given(PROMISES, st.sampled_from(["", " ", "  \t"]))
def test_what_a_promise_says_of_itself_can_be_typed(promise: Promise, gap: str) -> None:
    """No digit of the limit is lost, whatever stands between the words; stored ones come back, too."""
    typed = gap.join(["", promise.metric, promise.side.value, promise.limit_text, ""])
    assert parse_promise(typed) == parse_promise(promise.text) == promise
    gate = Gate((promise,), "w")
    assert from_json(Gate, to_json(gate)) == gate


@given(st.text("tpsx<>=0.97% -é\x00", max_size=12))
def test_any_text_is_a_promise_or_an_error_that_says_the_way_out(text: str) -> None:
    said: str | None = None
    try:
        said = parse_promise(text).text
    except WalproofError as error:
        said = error.hint
    assert said


@given(PROMISES, st.floats(0.01, 100), st.floats(1, 10))
def test_no_interval_breaks_and_keeps_a_promise(promise: Promise, low: float, times: float) -> None:
    """One that holds the limit within itself does neither."""
    high = low * times
    broken, kept = promise.is_broken_by(low, high), promise.is_kept_by(low, high)
    assert not (broken and kept)
    assert (broken or kept) or low <= promise.limit <= high
    if low < promise.limit < high:
        assert not broken
        assert not kept


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("tps", 'has no "<" or ">"', '"tps < 0.97x"'),
        ("tps < -3%", "in percent", 'Write "tps < 0.97x"'),
        ("tps < +3%", "in percent", 'Write "tps < 1.03x"'),
        # Whoever types a large share means what is left: a gate of 0.03x would let a loss of 90 % pass.
        (
            "tps < 97%",
            "in percent",
            'Write "tps < 0.97x" (97 % of the baseline) or "tps < 0.03x" (97 % less).',
        ),
        ("tps < 3%", "in percent", 'Write "tps < 0.97x" (3 % less) or "tps < 0.03x" (3 % of the baseline).'),
        ("tps < 50%", "in percent", 'Write "tps < 0.5x" (50 % less).'),
        ("tps < 100%", "in percent", 'Write "tps < 1x" (100 % of the baseline).'),
        ("wal_bytes_per_txn > 2 %", "in percent", 'Write "wal_bytes_per_txn > 1.02x" (2 % more) or'),
        ("wal_bytes_per_txn > 102%", "in percent", 'Write "wal_bytes_per_txn > 1.02x" (102 % of the'),
        ("wal_bytes_per_txn > +2%", "in percent", 'Write "wal_bytes_per_txn > 1.02x" (2 % more).'),
        ("tps < -100%", "in percent", "a ratio above 0"),
        ("tps < 900", 'without "x"', '"tps < 0.97x"'),
        ("wal_bytes_per_txn > 5e3", 'without "x"', '"wal_bytes_per_txn > 1.02x"'),
        ("tps < 0x", "limit of 0x", "above 0"),
        ("tps <= 0.97x", "cannot be read", "A promise is"),
        ("tps <", "cannot be read", "A promise is"),
        ("< 0.97x", "cannot be read", "A promise is"),
        ("tps < fast", "no limit", "A promise is"),
    ],
)
def test_what_is_refused_says_what_to_write(text: str, message: str, hint: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse_promise(text)
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_a_promise_twice_is_a_mistake() -> None:
    assert len(parse_promises(["tps < 0.97x", "tps < 0.9x"])) == 2
    with pytest.raises(StudyError, match="given twice"):
        parse_promises(["tps < 0.97x", "tps<.970x"])


@pytest.mark.parametrize(
    ("text", "is_broken"),
    [("tps < 1.2x", True), ("tps > 0.9x", True), ("tps < 1x", False), ("tps > 1x", False)],
)
def test_a_promise_that_an_unchanged_configuration_breaks(text: str, is_broken: bool) -> None:
    assert parse_promise(text).is_broken_by_no_change is is_broken


def test_slices_have_what_is_said_of_them() -> None:
    """The analysis sums them, the lab has to know which those are; neither sees the other."""
    assert set(OF_SLICES) == set(TOTALS)
    assert judged_metrics(Throughput(), slices=OF_SLICES) == OF_SLICES


def test_quantities_that_mean_something_may_be_judged() -> None:
    for name in ("tps", "latency_ms_p99", "wal_bytes_per_txn", "cpu_us_per_txn.client_backend"):
        assert may_be_judged(name, Throughput()), name
    # A total depends on the window, a series is no figure, and others are of other studies.
    for name in ("wal_bytes", "transactions", "load_s", "rows_per_s", "server_cpu_us_per_txn"):
        assert not may_be_judged(name, Throughput()), name
    assert not may_be_judged("tpss", Throughput())
    assert may_be_judged("wal_bytes_stat.update one row", Statements())
    assert has_gate(Throughput())
    assert not has_gate(Load(table="t", ddl="", rows=1))


def test_two_signs_are_no_promise() -> None:
    with pytest.raises(StudyError, match="cannot be read") as caught:
        parse_promise("tps >> 3")
    assert '"tps < 0.97x"' in (caught.value.hint or "")
