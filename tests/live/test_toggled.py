"""Settings toggled on a real server whose load never stops: slices, what is in force in them, the report."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.schemas import assert_valid
from walproof.facts import Design, Install, Slice, TrialState
from walproof.facts.store import Store

pytestmark = [pytest.mark.live, pytest.mark.pg(newest=True)]

CLIENTS, PASSES = 4, 6
SMALL = ("--scale", "1", "--clients", str(CLIENTS), "--threads", "2", "--passes", str(PASSES))
SLOW = "commit_delay=100000, commit_siblings=0"
"""Every flush of a commit waits for 0.1 s."""
SLOW_S = 0.1


def _check_slices(slices: tuple[Slice, ...], variants: set[str]) -> None:
    assert [turn.number for turn in slices] == list(range(1, PASSES * len(variants) + 1))
    for number in range(1, PASSES + 1):
        turns = [turn for turn in slices if turn.pass_number == number]
        assert {turn.variant for turn in turns} == variants
        assert [turn.position for turn in turns] == list(range(1, len(variants) + 1))
    assert slices[0].predecessor is None
    for before, after in pairwise(slices):
        assert after.predecessor == before.variant
        assert before.ended_at < after.began_at
        assert before.lsn_begin <= before.lsn_end <= after.lsn_begin
    for turn in slices:
        assert turn.length_s >= 0.5
        assert turn.cpu_s is None or turn.cpu_s >= 0


def test_a_setting_is_in_force_in_its_slices_and_in_no_others(tmp_path: Path, install: Install) -> None:
    """A commit that waits 0.1 s bounds how many there are in a slice, on however slow a machine."""
    done = walproof("compare", "--set", SLOW, "--pg", install.bindir, *SMALL, "--rounds", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
    run = store.run("last")
    trials = store.trials(run.id)
    store.close()
    assert run.plan.toggles_all
    (trial,) = trials
    assert (trial.state, trial.variant, trial.reason) == (TrialState.DONE, "default", None)
    _check_slices(trial.slices, {"default", SLOW})
    # A flush serves each session once, and one may have begun before the slice.
    for turn in trial.slices:
        if turn.variant == SLOW:
            assert turn.transactions <= CLIENTS * (turn.length_s / SLOW_S + 2)
    assert sum(turn.transactions for turn in trial.slices) <= trial.metrics["transactions"]
    assert trial.metrics["since_checkpoint_s"] > 0
    assert "design" in done.stdout
    assert "after the checkpoint before the load" in done.stdout


@pytest.mark.long
def test_a_mixed_comparison_names_the_design_of_each_row(tmp_path: Path) -> None:
    done = walproof(
        "compare", "--set", "synchronous_commit=off", "--set", "max_wal_size=2GB", "--pg", "embedded",
        *SMALL, "--duration", "1", "--rounds", "1", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert_valid("report", found)
    assert [
        (effect["variant"], effect["baseline"][2], effect["design"])
        for effect in found["analysis"]["effects"]
    ] == [
        ("synchronous_commit=off", "default, toggled", "toggled"),
        ("max_wal_size=2GB", "default", "fresh"),
    ]
    assert found["analysis"]["effects"][0]["toggled"]["passes"] == PASSES
    starts = [trial for trial in found["trials"] if trial["slices"]]
    assert [(start["variant"], len(start["slices"])) for start in starts] == [
        ("default, toggled", 2 * PASSES)
    ]
    assert len(found["trials"]) == 1 + 2
    assert {v["name"]: v["design"] for v in found["run"]["plan"]["variants"]} == {
        "default": "fresh", "default, toggled": "toggled", "synchronous_commit=off": "toggled",
        "max_wal_size=2GB": "fresh",
    }  # fmt: skip
    shown = walproof("show", "last", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for design in (Design.FRESH, Design.TOGGLED):
        assert design.value in shown.stdout


def test_an_offered_rate_stays_true_while_settings_are_toggled(tmp_path: Path) -> None:
    """The load is not stopped between slices, so that nothing is owed where every variant reaches it."""
    done = walproof(
        "compare", "--set", "synchronous_commit=off", "--pg", "embedded", *SMALL, "--rate", "20",
        "--rounds", "1", "--design", "toggled", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
    (trial,) = store.trials(store.run("last").id)
    store.close()
    assert trial.state is TrialState.DONE
    assert trial.window_s is not None
    # Poisson: 20 a second over 7 s are 140, and 206 would come by chance once in a million times.
    assert trial.metrics["transactions"] <= 20 * trial.window_s + 5.5 * (20 * trial.window_s) ** 0.5 + 20
