"""Servers that take turns: one load awake at a time, what the others do, and nothing left after a kill."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tests.cli.command import start, walproof
from tests.live.laboratory import processes, wait_clean, workspaces
from walproof.facts import Design, Install, TrialState
from walproof.facts.store import Store
from walproof.lab import sizes
from walproof.lab.asked import Overrides
from walproof.lab.schedule import Unseen
from walproof.lab.session import ready_to_run
from walproof.lab.study import ad_hoc, resolve
from walproof.lab.trial import TrialOrder, run_trial
from walproof.postgres.cache import cache_folder

pytestmark = pytest.mark.live

PASSES = 3
NAMES = {"default", "wal_buffers=16MB"}
SMALL = (
    "--design", "sliced", "--set", "wal_buffers=16MB",
    "--scale", "1", "--clients", "3", "--threads", "2", "--rounds", "1",
)  # fmt: skip


def test_loads_take_turns_and_servers_that_wait_do_next_to_nothing(tmp_path: Path) -> None:
    done = walproof("compare", *SMALL, "--passes", str(PASSES), "--pg", "embedded", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
    run = store.run("last")
    (trial,) = store.trials(run.id)
    store.close()
    assert (trial.state, trial.reason) == (TrialState.DONE, None)
    assert {variant.design for variant in run.plan.variants} == {Design.SLICED}
    assert [(turn.number, turn.pass_number, turn.position) for turn in trial.slices] == [
        (2 * (number - 1) + place, number, place) for number in range(1, PASSES + 1) for place in (1, 2)
    ]
    for number in range(1, PASSES + 1):
        assert {turn.variant for turn in trial.slices if turn.pass_number == number} == NAMES
    for before, after in pairwise(trial.slices):
        assert after.predecessor == before.variant
        assert before.ended_at < after.began_at
    for name in NAMES:
        turns = [turn for turn in trial.slices if turn.variant == name]
        assert sum(turn.transactions for turn in turns) > 0
        assert sum(turn.lsn_end - turn.lsn_begin for turn in turns) > 0
        assert all(before.lsn_end <= after.lsn_begin for before, after in pairwise(turns))
    assert trial.metrics["transactions"] == sum(turn.transactions for turn in trial.slices)
    loaded = sum(turn.lsn_end - turn.lsn_begin for turn in trial.slices)
    assert trial.metrics["waiting_wal_bytes"] < loaded, "a load that is stopped writes nothing"
    assert 0 <= trial.metrics["waiting_cpu_share"] <= trial.metrics["waiting_cpu_share_max"]
    # Servers are stopped with their loads: their background processes wake several times a second.
    assert trial.metrics["waiting_cpu_share_max"] == 0
    assert "sliced" in done.stdout
    assert "Servers that waited took" in done.stdout


def test_a_later_start_has_the_tables_of_an_earlier_one_as_good_as_new(embedded: Install, work: Path) -> None:
    load = {"name": "w", "scale": 1, "clients": 3, "threads": 2, "duration": "1s"}
    study = ad_hoc([{"wal_buffers": "16MB"}], load)
    plan = resolve(study, Overrides(design="sliced", rounds=3, passes=2), folder=work, given=(embedded,))
    with ready_to_run(plan, Unseen()) as half:
        for number in (1, 2, 3):
            trial, _ = run_trial(half, TrialOrder(number, number, embedded.label, "w", "default"))
            assert (trial.state, trial.reason) == (TrialState.DONE, None)
            assert {turn.variant for turn in trial.slices} == {variant.name for variant in plan.variants}
            assert all(turn.transactions > 0 for turn in trial.slices)
            # Those of the start before are among them, under another name.
            kept = {folder.name for folder in work.glob("running/*/kept-*")}
            assert kept == {f"kept-trial-{number}-{server}" for server in (1, 2)}


def test_servers_that_share_a_cache_too_small_for_their_tables_are_warned_of(
    embedded: Install, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = {"name": "w", "scale": 1, "clients": 3, "threads": 2, "duration": "1s"}
    study = ad_hoc([{"wal_buffers": "16MB"}], load)
    asked = Overrides(design="sliced", rounds=1, passes=2)
    plan = resolve(study, asked, folder=work, given=(embedded,))
    # The servers fit, with a megabyte to spare.
    tight = (sizes.at_once_bytes(plan) + (1 << 20)) / psutil.virtual_memory().total
    trials = []
    for share in (0.75, tight):
        monkeypatch.setattr(sizes, "_CACHED_SHARE", share)
        with ready_to_run(plan, Unseen()) as half:
            trials.append(run_trial(half, TrialOrder(1, 1, embedded.label, "w", "default"))[0])
    assert [(trial.state, trial.reason) for trial in trials] == [(TrialState.DONE, None)] * 2
    assert not [warning for warning in trials[0].warnings if "at once" in warning]
    (said,) = (warning for warning in trials[1].warnings if "at once" in warning)
    assert said.startswith("2 servers at once need ")
    assert said.endswith("these read from the disk (--design fresh)")


def test_nothing_is_left_of_servers_whose_loads_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed while one pgbench is stopped: the watchdog wakes and ends it, and the servers."""
    # Tests that run beside this have workspaces, too, which are nobody's leavings.
    monkeypatch.setenv("WALPROOF_CACHE", str(cache_folder("interruptions")))
    process = start(("compare", *SMALL, "--pg", "embedded", "--passes", "200"), tmp_path, tmp_path / "errors")
    try:
        deadline = time.monotonic() + 120
        while not _stopped() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        assert _stopped(), (tmp_path / "errors").read_text()
        ours = workspaces()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert ours
    assert wait_clean(30) == []


def _stopped() -> list[int]:
    """Load generators of a workspace that are stopped."""
    found = []
    for pid, words in processes():
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if "pgbench" in words.split("\0")[0] and state == "T":
            found.append(pid)
    return found
