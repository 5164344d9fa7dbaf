"""An index is unused only if it is old enough to have been read."""

from __future__ import annotations

from dataclasses import replace

from tests.advise.server.windows import DAY_S, found, healthy
from walproof.advise.server.advice import Advice, Fine, Sure, Unseen
from walproof.facts.server import OTHER_INDEXES, UNSHOWN_STANDBYS, ServerIndex, ServerStandby

RATE = 50
"""Transactions a second of the healthy window."""
OLD = ServerIndex("public.old", "public.t", 50 << 20, 0, False, False, 17000, 10**9)


def test_an_index_of_this_morning_has_had_no_time_to_be_read() -> None:
    """The statistics of the database are a month old, and were taken for those of the index."""
    young = replace(OLD, name="public.young", age=int(6 * DAY_S * RATE))
    told = found("unused indexes", replace(healthy(), indexes=(young,)))
    assert isinstance(told, Unseen)
    assert told.reason == "an index was not read, and made less than a week ago"
    both = found("unused indexes", replace(healthy(), indexes=(young, OLD)))
    assert isinstance(both, Advice)
    assert both.sure is Sure.MEDIUM
    assert both.steps == ("DROP INDEX CONCURRENTLY public.old;",)
    assert "Too young to say: 1 other." in both.evidence


def test_an_index_of_unknown_age_is_accused_with_little_certainty() -> None:
    told = found("unused indexes", replace(healthy(), indexes=(replace(OLD, age=None),)))
    assert isinstance(told, Advice)
    assert told.sure is Sure.LOW
    assert told.unknown[0].startswith("when they were made")


def test_indexes_that_were_not_looked_at_are_not_called_read() -> None:
    read = replace(healthy(), indexes=(replace(OLD, scans=1), replace(OLD, name="public.new", scans=2)))
    told = found("unused indexes", read)
    assert isinstance(told, Fine)
    assert told.sentence == "Every index was read, is needed, or is small."
    told = found("unused indexes", replace(read, lacks=(f"{OTHER_INDEXES}: only the 2 largest are read",)))
    assert isinstance(told, Fine)
    assert told.sentence == "Each of the 2 largest indexes was read, is needed, or is small."


def test_what_a_failed_build_has_left_is_named_so() -> None:
    left = replace(OLD, age=1, is_valid=False)
    told = found("unused indexes", replace(healthy(), indexes=(left,)))
    assert isinstance(told, Advice)
    assert "not valid: a CREATE INDEX CONCURRENTLY failed, or still runs" in told.evidence[0]
    # To drop one that is being made waits until it is made.
    assert all(step.startswith("--") for step in told.steps)


def test_a_name_does_not_leave_the_comment() -> None:
    """Its owner needs no right to drop the table that the next line would."""
    left = replace(OLD, name='public."i\nDROP TABLE public.orders; --"', age=1, is_valid=False)
    told = found("unused indexes", replace(healthy(), indexes=(left,)))
    assert isinstance(told, Advice)
    assert [line[:2] for line in "\n".join(told.steps).splitlines()] == ["--"] * len(told.steps)
    assert "DROP TABLE public.orders" in told.steps[1]


def test_a_standby_with_young_statistics_is_no_witness() -> None:
    """A weekly reader may not have come yet, and who may not see standbys does not know of them."""
    window = replace(healthy(), indexes=(OLD,), standbys=(ServerStandby("b", "streaming", "async", 0),))
    told = {}
    for counted_s in (86400.0, None, 30 * 86400.0):
        seen = window.with_scans({}, counted_s)
        told[counted_s] = found("unused indexes", seen)
        lacks = [lack for lack in seen.lacks if lack.startswith("a standby's scans of indexes: its statist")]
        assert bool(lacks) == (counted_s != 30 * 86400.0)
    sure = [each.sure for each in told.values() if isinstance(each, Advice)]
    assert sure == [Sure.LOW, Sure.LOW, Sure.MEDIUM]
    hidden = found("unused indexes", replace(window, standbys=(), lacks=(f"standbys: {UNSHOWN_STANDBYS}",)))
    assert isinstance(hidden, Advice)
    assert hidden.sure is Sure.LOW


def test_a_standby_of_14_counts_from_its_start_on() -> None:
    window = replace(healthy("14.20"), is_in_recovery=True)
    end = window.looks[-1].at
    window = replace(window, reset_at=end - 30 * DAY_S, started_at=end - DAY_S)
    assert window.counted_s == DAY_S
    assert replace(window, version_num=150000).counted_s == 30 * DAY_S
    assert replace(window, is_in_recovery=False).counted_s == 30 * DAY_S
