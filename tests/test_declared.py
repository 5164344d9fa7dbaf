"""What watches the names of facts in all tests sees an undeclared one, made here or stored by a command."""

from __future__ import annotations

from pathlib import Path

from tests import declared
from tests.facts.plans import plan, trial
from walproof.facts import Environment, Series
from walproof.facts.store import Store
from walproof.probe.protocol import Observation


def test_undeclared_names_are_seen_where_facts_are_made() -> None:
    Observation({"tps": 1.0, "wal_fsync_s": 1.0}, {"checkpoint": ((0.0,), (0.0,)), "wal_bytes": ((), ())})
    Series(1, "wait_share.CPU", (), ())
    Series(1, "wait_share", (), ())
    seen = list(declared.undeclared)
    declared.undeclared.clear()
    assert seen == ["Observation: wal_fsync_s", "Observation: wal_bytes", "Series: wait_share"]


def test_undeclared_names_are_seen_in_stores(tmp_path: Path) -> None:
    store = Store(tmp_path / "walproof.sqlite")
    run = store.add_run(plan(), ("walproof", "run"), Environment({}, {}), "1")
    done = trial(1)
    store.add_trial(run.id, done)
    assert list(declared.stored_below(tmp_path)) == []
    # Under the eyes of the watch no such trial could be made.
    odd = trial(2)
    assert isinstance(odd.metrics, dict)
    odd.metrics["wal_fsync_s"] = 1.0
    store.add_trial(run.id, odd)
    store.close()
    assert list(declared.stored_below(tmp_path)) == [f"{tmp_path}/walproof.sqlite: wal_fsync_s"]
    (tmp_path / "walproof.sqlite").unlink()
