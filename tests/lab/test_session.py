"""Which interrupted run a command goes on with."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts.plans import INSTALL, plan
from walproof.cli.execution import _finished_without_report
from walproof.errors import StudyError
from walproof.facts import Environment, Gate, Plan
from walproof.facts.gate import parse_promises
from walproof.facts.store import Store
from walproof.lab.session import find_unfinished
from walproof.postgres.build import SERVER_PROGRAM, server_program
from walproof.probe.environment import machine_facts

COMMAND = ("walproof", "compare")


def of_build(folder: Path) -> tuple[Plan, Environment]:
    """A plan whose server program is a file in that folder, and the environment of a run of it."""
    (folder / "postgres").write_text("a build")
    install = replace(INSTALL, bindir=str(folder))
    asked = replace(plan(), installs=(install,), driver=install)
    program = {SERVER_PROGRAM: server_program(install)}
    return asked, Environment(machine_facts(), {install.label: program})


@pytest.mark.parametrize("text", ["another build", "a guild"])
def test_a_run_of_a_build_that_was_replaced_is_not_resumed(tmp_path: Path, text: str) -> None:
    """As where the next commit of a change is built into the same folder; also at the same size."""
    asked, environment = of_build(tmp_path)
    store = Store(tmp_path / "store.sqlite")
    # A run of before has no such fact; a build that is the same is resumed.
    before = store.add_run(asked, COMMAND, Environment(machine_facts(), {}), "1.0")
    told: list[str] = []
    assert find_unfinished(store, asked, COMMAND, tell=told.append) == before
    run = store.add_run(asked, COMMAND, environment, "1.0")
    assert find_unfinished(store, asked, COMMAND, tell=told.append) == run
    assert told == []
    (tmp_path / "postgres").write_text(text)
    os.utime(tmp_path / "postgres", ns=(0, 1_700_000_000_000_000_001))
    assert find_unfinished(store, asked, COMMAND, tell=told.append) is None
    assert told == [f"a new run, because run {run.id} was begun with another build of PostgreSQL 18.4"]
    store.close()


def test_a_finished_run_of_a_build_that_was_replaced_is_not_shown(tmp_path: Path) -> None:
    """Its report is missing, and the command would print the gate of the other build."""
    asked, environment = of_build(tmp_path)
    store = Store(tmp_path / "store.sqlite")
    run = store.add_run(asked, COMMAND, environment, "1.0")
    store.finish_run(run.id)
    found = _finished_without_report(store, asked, COMMAND, tmp_path)
    assert found is not None
    assert found.id == run.id
    page = tmp_path / "reports" / f"{run.id}.html"
    page.parent.mkdir()
    page.touch()
    assert _finished_without_report(store, asked, COMMAND, tmp_path) is None
    page.unlink()
    (tmp_path / "postgres").write_text("another build")
    assert _finished_without_report(store, asked, COMMAND, tmp_path) is None
    store.close()


def test_a_gate_that_was_interrupted_long_ago_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sides are measured now: the rounds of last night are no part of this one, and nothing of a change
    that was cancelled then makes this one an error."""
    asked, environment = of_build(tmp_path)
    gate = Gate(parse_promises(("tps < 0.97x",)))
    asked = replace(asked, gate=gate, budget_s=600.0)
    changed = replace(asked, seed=asked.seed + 1)
    store = Store(tmp_path / "store.sqlite")
    run = store.add_run(asked, COMMAND, environment, "1.0")
    assert find_unfinished(store, asked, COMMAND) == run
    with pytest.raises(StudyError, match="has changed since"):
        find_unfinished(store, changed, COMMAND)
    monkeypatch.setattr("walproof.lab.session.time.time", lambda: run.created_at + 9 * 3600)
    told: list[str] = []
    assert find_unfinished(store, asked, COMMAND, tell=told.append) is None
    assert told == [f"the gate of run {run.id} is not resumed: its first rounds are of another time"]
    assert find_unfinished(store, changed, COMMAND) is None
    # Nor is its answer that of tonight, though its report was never written.
    store.finish_run(run.id)
    assert _finished_without_report(store, asked, COMMAND, tmp_path) is None
    monkeypatch.undo()
    assert _finished_without_report(store, asked, COMMAND, tmp_path) is not None
    store.close()
