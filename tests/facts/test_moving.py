"""Whole runs that leave a store or come into another, in both databases."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path

import pytest

from tests.facts.plans import ENVIRONMENT, SERIES, plan, trial
from walproof.errors import StoreError
from walproof.facts import CheckedImage, CutFacts, ImageState, RequestKind, Slice
from walproof.facts.moving import Copied, CopiedRun
from walproof.facts.run import BegunTrial
from walproof.facts.store import Store

COMMAND = ("walproof", "run", "example")


def _filled(store: Store, trials: int = 2) -> str:
    image = CheckedImage(1, 77, "random 0.5 of 512 B", ImageState.LOST, "3 gone", 2, 3, 41.5, 0.4, "/kept/1")
    cut = CutFacts(9, "wal flush 5", "busy", 100, 1.5, 4096, 2, ("pg_xact/0000",), (image,))
    slices = (Slice(1, 1, 1, "default", None, 1.0, 2.0, 10, 20, 5, 2.5, None, None, None, 0.1),)
    run = store.add_run(plan(), COMMAND, ENVIRONMENT, "1.0", study_text="title = 1")
    store.begin_trial(run.id, BegunTrial(1, 1, "18.4", "w", "default", 12.0))
    store.add_trial(run.id, dataclasses.replace(trial(1), cut=cut, slices=slices), [SERIES])
    for number in range(2, trials + 1):
        store.add_trial(run.id, trial(number))
    request = store.ask(run.id, RequestKind.STOP)
    store.answer(run.id, request, "the run ends here", is_granted=True)
    return run.id


def _seen(store: Store, name: str) -> object:
    run = dataclasses.replace(store.run(name), id="")
    return run, store.trials(name), store.series(name), list(store.begun([name]).values())


def test_a_run_is_copied_into_another_store(store: Store, tmp_path: Path) -> None:
    name = _filled(store)
    other = Store(tmp_path / "other.sqlite")
    assert store.copy_run(name, other) == CopiedRun(name, Copied.NEW, 2)
    assert _seen(other, name) == _seen(store, name)
    assert store.copy_run(name, other) == CopiedRun(name, Copied.THERE, 2)
    store.add_trial(name, trial(3))
    store.finish_run(name)
    assert store.copy_run(name, other) == CopiedRun(name, Copied.MORE, 3)
    assert _seen(other, name) == _seen(store, name)
    # And back, where it is: an older copy undoes nothing.
    assert other.copy_run(name, store) == CopiedRun(name, Copied.THERE, 3)
    other.close()


def test_a_run_that_went_on_in_both_stores_loses_nothing(store: Store, tmp_path: Path) -> None:
    name = _filled(store)
    other = Store(tmp_path / "other.sqlite")
    store.copy_run(name, other)
    for number in (3, 4):
        other.add_trial(name, trial(number))
    store.finish_run(name)
    with pytest.raises(StoreError, match=f"run {name} went on in both stores"):
        store.copy_run(name, other)
    assert len(other.trials(name)) == 4
    other.finish_run(name)
    assert store.copy_run(name, other).outcome is Copied.THERE
    assert len(other.trials(name)) == 4
    other.close()


def test_a_copy_that_is_running_is_not_replaced(store: Store, tmp_path: Path) -> None:
    name = _filled(store)
    other, process = (Store(tmp_path / "other.sqlite") for _ in range(2))
    store.copy_run(name, other)
    store.add_trial(name, trial(3))
    with process.claim(name), pytest.raises(StoreError, match="is running in"):
        store.copy_run(name, other)
    assert store.copy_run(name, other).outcome is Copied.MORE
    for opened in (other, process):
        opened.close()


def test_a_run_whose_id_is_taken_gets_another(store: Store, tmp_path: Path) -> None:
    name = _filled(store)
    other = Store(tmp_path / "other.sqlite")
    taken = _filled(other, trials=4)
    assert taken == name
    copied = store.copy_run(name, other)
    assert copied == CopiedRun(f"{name}-2", Copied.NEW, 2)
    assert _seen(other, copied.id) == _seen(store, name)
    assert len(other.trials(name)) == 4
    other.close()


def test_a_removed_run_leaves_nothing_and_its_number_is_not_given_away(store: Store, url: str) -> None:
    first, second, third = (_filled(store) for _ in range(3))
    kept = _seen(store, third)
    store.remove_runs([second])
    assert [run.id for run in store.runs()] == [first, third]
    assert (store.trials(second), store.series(second), store.requests(second)) == ((), (), ())
    assert _seen(store, third) == kept
    assert _filled(store) == f"{first}-4"
    reader = Store(url)
    with reader.claim(first), pytest.raises(StoreError, match="is running"):
        store.remove_runs([third, first])
    reader.close()
    assert len(store.trials(first)) == 2
    assert _seen(store, third) == kept


def test_a_copy_gets_no_id_that_leads_elsewhere(tmp_path: Path) -> None:
    """Where its own id is taken, the new one is made of the name of its study."""
    theirs, mine = (Store(tmp_path / name) for name in ("theirs.sqlite", "mine.sqlite"))
    name = _filled(theirs)
    assert _filled(mine) == name
    with sqlite3.connect(tmp_path / "theirs.sqlite") as connection:
        connection.execute("UPDATE run SET study = '../../site'")
    connection.close()
    with pytest.raises(StoreError, match="an id that walproof does not give"):
        theirs.copy_run(name, mine)
    assert [run.id for run in mine.runs()] == [name]
    for opened in (theirs, mine):
        opened.close()
