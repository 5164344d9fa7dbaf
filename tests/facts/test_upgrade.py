"""Stores of format 1: every kind of study as it was stored then, brought to today's form."""

from __future__ import annotations

import itertools
import json
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from tests.cli.command import walproof
from tests.facts.plans import ENVIRONMENT, plan, trial
from walproof.errors import StoreError
from walproof.facts import Install, Plan
from walproof.facts.codec import from_json, plan_hash
from walproof.facts.place import StorePlace, open_engine
from walproof.facts.store import Store
from walproof.facts.upgrade import upgrade_store, upgraded_plan
from walproof.lab.asked import Overrides
from walproof.lab.study import read_study, resolve

STORED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("plans-format-1.json").read_text())
"""Options of ``walproof run`` -> the plan that a walproof of format 1 stored for them (2026-11-23)."""


def _overrides(words: list[str]) -> Overrides:
    options = dict(itertools.pairwise(words))
    return Overrides(
        quick="--quick" in words,
        rounds=int(options["--rounds"]),
        duration_s=float(options["--duration"].rstrip("s")) if "--duration" in options else None,
        seed=int(options["--seed"]) if "--seed" in options else None,
        power_cut_images=int(options["--power-cut"]) if "--power-cut" in options else None,
    )


@pytest.mark.parametrize("command", STORED)
def test_a_plan_says_what_it_said(embedded: Install, command: str) -> None:
    """The study that it was made from says the same today."""
    old = STORED[command]
    found = from_json(Plan, upgraded_plan(json.dumps(old)))
    words = shlex.split(command)
    study, _, scripts = read_study(words[0])
    now = resolve(study, _overrides(words), folder=Path("/somewhere"), scripts=scripts, given=(embedded,))
    assert found.kind == now.kind
    assert [variant.name for variant in found.variants] == [variant["name"] for variant in old["variants"]]
    common = {variant.name: variant for variant in now.variants}
    compared = [variant for variant in found.variants if variant.name in common]
    assert len(compared) >= len(common) - len(now.left_out)
    for variant in compared:
        same = common[variant.name]
        assert (variant.settings, variant.levels) == (same.settings, same.levels)
        assert variant.conditions == same.conditions
        # Of a failover the class was that of one server alone: what a standby lacks came later.
        assert variant.durability is same.durability or now.kind.name == "failover"
        assert not same.durability < variant.durability
    kept = {"study", "title", "rounds", "seed", "probes", "baseline"}
    assert {name: old[name] for name in kept} == {
        name: list(value) if isinstance(value := getattr(found, name), tuple) else value for name in kept
    }


def test_there_is_a_stored_plan_of_each_kind() -> None:
    found = {upgraded["kind"]["name"] for upgraded in map(_upgraded, STORED.values())}
    assert found == {
        "throughput", "statements", "power cuts", "replay", "streaming", "failover", "loading",
    }  # fmt: skip
    added = [upgraded["kind"].get("added") for upgraded in map(_upgraded, STORED.values())]
    assert {text["name"] for text in added if text is not None} == {"crash", "power cut"}


def _upgraded(stored: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(upgraded_plan(json.dumps(stored)))
    return found


def _old_store(path: Path) -> list[str]:
    """A store as format 1 had it: ids of its runs."""
    store = Store(path)
    for number in range(len(STORED)):
        run = store.add_run(plan(rounds=number + 1), ("walproof", "run"), ENVIRONMENT, "1.0")
        store.add_trial(run.id, trial(1))
        store.finish_run(run.id)
    ids = [run.id for run in store.runs()]
    store.close()
    with sqlite3.connect(path) as connection:
        for id_, old in zip(ids, STORED.values(), strict=True):
            connection.execute(
                "UPDATE run SET plan = ?, plan_hash = 'old' WHERE id = ?", (json.dumps(old), id_)
            )
        connection.execute("UPDATE walproof_format SET format = 1")
    connection.close()
    return ids


def test_a_store_is_brought_along_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "walproof.sqlite"
    ids = _old_store(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="has format 1, expected 2") as refused:
        Store(path)
    assert "walproof store upgrade" in str(refused.value.hint)
    done = walproof("store", "upgrade", "--out", ".", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = tmp_path / "walproof.sqlite.format-1"
    assert json.loads(done.stdout) == {"store": str(path), "runs": len(ids), "kept": str(kept)}
    store = Store(path)
    runs = store.runs()
    assert [run.id for run in runs] == ids
    assert [run.plan.study for run in runs] == [old["study"] for old in STORED.values()]
    assert [store.trials(run.id) for run in runs] == [(trial(1),)] * len(ids)
    store.close()
    with sqlite3.connect(path) as connection:
        hashes = dict(connection.execute("SELECT id, plan_hash FROM run").fetchall())
    connection.close()
    assert hashes == {run.id: plan_hash(run.plan) for run in runs}
    with sqlite3.connect(kept) as connection:
        plans = [json.loads(text) for (text,) in connection.execute("SELECT plan FROM run ORDER BY rowid")]
    connection.close()
    assert plans == list(STORED.values())
    assert before[:16] == kept.read_bytes()[:16]
    again = walproof("store", "upgrade", "--out", ".", cwd=tmp_path)
    assert again.stdout == f"{path}: has today's form already\n"


@pytest.mark.parametrize("must_exist", [True, False])
def test_a_store_of_another_format_is_refused_as_it_is(tmp_path: Path, must_exist: bool) -> None:
    """The tables that it lacks were made before its format was looked at."""
    path = tmp_path / "walproof.sqlite"
    _old_store(path)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE trial_begin")
    connection.close()
    with pytest.raises(StoreError, match="has format 1, expected 2"):
        Store(path, must_exist=must_exist)
    with sqlite3.connect(path) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    assert "trial" in tables
    assert "trial_begin" not in tables


def test_a_plan_that_cannot_be_read_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "walproof.sqlite"
    ids = _old_store(path)
    with sqlite3.connect(path) as connection:
        broken = json.dumps({**next(iter(STORED.values())), "rounds": "many"})
        connection.execute("UPDATE run SET plan = ? WHERE id = ?", (broken, ids[-1]))
    connection.close()
    with pytest.raises(StoreError, match="stored plan cannot be read") as refused:
        upgrade_store(path)
    assert "rounds" in str(refused.value.detail)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT format FROM walproof_format").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM run WHERE plan_hash = 'old'").fetchone() == (
            len(ids),
        )
    connection.close()
    # The copy of the first attempt is somebody's only copy for all that is known.
    with pytest.raises(StoreError, match='format-1" exists'):
        upgrade_store(path)


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Part of one would be taken for the store of before."""
    path = tmp_path / "walproof.sqlite"
    ids = _old_store(path)
    seen: list[int] = []

    def on_a_full_disk(place: StorePlace) -> sa.Engine:
        engine = open_engine(place)

        @sa.event.listens_for(engine, "after_cursor_execute")
        def fail(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if statement.startswith("VACUUM INTO"):
                seen.extend(file.stat().st_size for file in tmp_path.iterdir() if file != path)
                raise OperationalError(statement, None, sqlite3.OperationalError("disk is full"))

        return engine

    with monkeypatch.context() as patch:
        patch.setattr("walproof.facts.upgrade.open_engine", on_a_full_disk)
        with pytest.raises(StoreError, match="cannot be upgraded") as refused:
            upgrade_store(path)
    assert refused.value.detail == "disk is full"
    assert max(seen) > 0
    assert list(tmp_path.iterdir()) == [path]
    assert upgrade_store(path).runs == len(ids)


@pytest.mark.parametrize(("stored", "says"), [(0, "has format 0"), (99, "has format 99, expected 1 or 2")])
def test_other_formats_are_refused(tmp_path: Path, stored: int, says: str) -> None:
    path = tmp_path / "walproof.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE walproof_format SET format = ?", (stored,))
    connection.close()
    with pytest.raises(StoreError, match=says):
        upgrade_store(path)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE t (x int)")
    connection.close()
    with pytest.raises(StoreError, match="is not a store of walproof"):
        upgrade_store(tmp_path / "other.sqlite")
    done = walproof("store", "upgrade", "--out", "nothing", cwd=tmp_path)
    assert done.returncode == 2
    assert 'folder "nothing" holds no results' in done.stderr
