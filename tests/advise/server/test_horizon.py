"""Whoever keeps old rows from VACUUM is named, and ended by hand alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.server.windows import found, healthy, with_settings
from walproof.advise.server.advice import Advice, Fine, Unseen
from walproof.facts.server import ServerDatabase
from walproof.facts.transactions import HorizonHolder

OLD = HorizonHolder("session", "4711", "idle in transaction", 3 * 86400.0, 2 * 10**7)
SLOT = HorizonHolder("slot", "etl", "inactive", None, 2 * 10**7)
STANDBY = HorizonHolder("standby", "report\n; DROP TABLE t;", "streaming", None, 2 * 10**8)


@pytest.mark.parametrize(
    ("holder", "words", "step"),
    [
        (OLD, "idle in transaction, for 72 h 00 min, 20,000,000", "-- SELECT pg_terminate_backend(4711);"),
        (SLOT, "Slot etl (inactive, 20,000,000", "-- SELECT pg_drop_replication_slot('etl');"),
        (STANDBY, "Standby report", "-- on report"),
        (replace(OLD, since_s=60.0), None, ""),
        (replace(OLD, age=10**6), None, ""),
        (replace(SLOT, state="active"), None, ""),
        (replace(SLOT, state="active", age=10**8), "Slot etl (active", "-- on the standby or subscriber of"),
        (replace(STANDBY, age=10**7), None, ""),
    ],
)
def test_who_keeps_old_rows_for_long_is_named(holder: HorizonHolder, words: str | None, step: str) -> None:
    told = found("horizon", replace(healthy(), horizon=(holder,)))
    if words is None:
        assert isinstance(told, Fine), told
        return
    assert isinstance(told, Advice)
    assert words in told.evidence[0]
    assert told.steps[1].startswith(step)
    assert all(line.startswith("--") for line in "\n".join(told.steps).splitlines())


def test_a_role_that_sees_no_other_session_knows_nothing() -> None:
    blind = replace(healthy(), role_lacks=("pg_monitor",))
    assert isinstance(found("horizon", blind), Unseen)
    assert isinstance(found("horizon", replace(blind, horizon=(replace(SLOT, state="active"),))), Unseen)
    assert isinstance(found("horizon", replace(blind, horizon=(replace(SLOT, age=10**9),))), Advice)
    assert found("horizon", replace(healthy(), horizon=(OLD,), is_in_recovery=True)) is None


def test_what_cannot_be_frozen_names_who_holds_it_back() -> None:
    window = with_settings(healthy(), autovacuum_freeze_max_age="200000000")
    window = replace(window, databases=(ServerDatabase("shop", 2 * 10**9, 1),), horizon=(OLD,))
    told = found("freezing", window)
    assert isinstance(told, Advice)
    assert any("The oldest of these: session 4711" in sentence for sentence in told.evidence)
