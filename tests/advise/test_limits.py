"""What limits a cell: each rule fires on its facts, and stays silent without them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.advise.findings import ask, make_measured_trials, sentences
from tests.analysis.facts import DEFAULT, FSYNC_OFF, fail, make_plan, make_trial, make_workload
from walproof.advise.finding import FindingKind
from walproof.facts import Cell

SMALL, LARGE = make_workload(), make_workload("scale 50", 50)


def said(kind: FindingKind, metrics: Mapping[str, float], scale: int = 50) -> list[str]:
    """Sentences of that kind about the baseline of a run whose trials all have these metrics."""
    plan = make_plan((DEFAULT,), (make_workload("load", scale),))
    return sentences(plan, make_measured_trials(plan, lambda cell: metrics), kind, "default")


def waits(**shares: float) -> dict[str, float]:
    """IO__WalSync=0.2 -> wait_share.IO:WalSync."""
    return {f"wait_share.{name.replace('__', ':')}": share for name, share in shares.items()}


def test_commits_wait_for_the_flush() -> None:
    facts = waits(IO__WalSync=0.21, LWLock__WALWrite=0.62, CPU=0.1) | {"disk_busy_share": 0.97}
    assert said(FindingKind.FLUSH, facts) == [
        "commits wait for the WAL flush in 83 % of samples (LWLock:WALWrite 62 %, IO:WalSync 21 %), "
        "disk busy 97 %"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "IO__WALSync",
        "IO__WalSync",
        "IO__WALWrite",
        "IO__WalWrite",
        "LWLock__WALWrite",
        "LWLock__WALWriteLock",
        "Timeout__CommitDelay",
    ],
)
def test_every_spelling_of_the_flush_counts(name: str) -> None:
    (sentence,) = said(FindingKind.FLUSH, waits(**{name: 0.5}) | {"wal_sync_ms_avg": 1.43})
    assert sentence.endswith(f"({name.replace('__', ':')} 50 %), 1.43 ms per flush")


@pytest.mark.parametrize("name", ["LWLock__WALInsert", "IO__DataFileRead", "Lock__tuple", "CPU"])
def test_other_waits_are_no_flush(name: str) -> None:
    assert said(FindingKind.FLUSH, waits(**{name: 0.9}, IO__WalSync=0.1)) == []


def test_row_lock_at_scale_one_names_the_branch_and_what_its_holder_waits_for() -> None:
    facts = waits(Lock__tuple=0.75, Lock__transactionid=0.20, IO__WalSync=0.04, CPU=0.01)
    assert said(FindingKind.LOCK, facts, scale=1) == [
        "transactions wait for a row lock in 95 % of samples (Lock:tuple 75 %, Lock:transactionid 20 %): "
        "at scale 1 every transaction updates the same row of pgbench_branches; "
        "80 % of the other samples wait for the WAL flush, so the row stays locked until that is done"
    ]


def test_row_lock_elsewhere_does_not_blame_the_branch() -> None:
    (sentence,) = said(FindingKind.LOCK, waits(Lock__tuple=0.5, CPU=0.5))
    assert sentence == "transactions wait for a row lock in 50 % of samples (Lock:tuple 50 %)"
    assert said(FindingKind.LOCK, waits(Lock__tuple=0.2, Lock__relation=0.7)) == []
    (all_locked,) = said(FindingKind.LOCK, waits(Lock__tuple=1.0))
    assert "100 %" in all_locked


def test_processors() -> None:
    facts = {
        "host_cpu_busy_share": 0.98,
        "cpu_s.client backend": 14.0,
        "cpu_s.pgbench": 5.0,
        "cpu_s.walwriter": 0.5,
    }
    assert said(FindingKind.CPU, facts) == [
        "the CPU is the limit: host busy 98 %; "
        "of the CPU time accounted for, client backend 72 % and pgbench 26 %"
    ]
    assert said(FindingKind.CPU, {"host_cpu_busy_share": 0.95}) == ["the CPU is the limit: host busy 95 %"]
    assert said(FindingKind.CPU, facts | {"host_cpu_busy_share": 0.6}) == []
    assert said(FindingKind.CPU, facts | {"host_cpu_busy_s": 21.0})
    others = facts | {"host_cpu_busy_s": 195.0}
    assert said(FindingKind.CPU, others) == []
    assert said(FindingKind.OTHERS, others) == [
        "other programs keep the CPU busy: 90 % of the CPU time that the host spent (busy 98 %) is neither "
        "the server's nor the load generator's; measure on a quiet machine"
    ]
    assert said(FindingKind.CPU, {"cpu_s.pgbench": 5.0}) == []


def test_a_disk_that_is_busy_with_something_else() -> None:
    facts = {
        "disk_busy_share": 0.96,
        "write_bytes.checkpointer": 9e6,
        "write_bytes.client backend": 1e6,
        **waits(CPU=0.9, IO__WalSync=0.1),
    }
    assert said(FindingKind.DISK, facts) == [
        "disk busy 96 %, but commits wait for the WAL flush in only 10 % of samples: "
        "other writes fill the disk, 90 % of them by checkpointer"
    ]
    assert said(FindingKind.DISK, facts | {"disk_busy_share": 0.5}) == []
    assert said(FindingKind.DISK, facts | waits(IO__WalSync=0.5)) == []
    assert said(FindingKind.DISK, facts | waits(Lock__tuple=0.5)) == []
    # Without wait samples nothing is known about the commits.
    assert said(FindingKind.DISK, {"disk_busy_share": 0.96}) == []


def test_without_fsync_the_same_waits_are_for_writing() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), (make_workload(),))
    trials = make_measured_trials(plan, lambda cell: waits(LWLock__WALWrite=0.5))
    assert "wait for the WAL flush in 50 %" in sentences(plan, trials, FindingKind.FLUSH, "default")[0]
    assert "wait for the WAL write in 50 %" in sentences(plan, trials, FindingKind.FLUSH, "fsync=off")[0]


def test_a_load_generator_without_a_processor_is_not_the_limit() -> None:
    facts = {"idle_in_transaction_avg": 12.0, "active_backends_avg": 8.0}
    assert said(FindingKind.IDLE, facts | {"host_cpu_busy_share": 0.95}) == []
    assert said(FindingKind.IDLE, facts | {"host_cpu_busy_share": 0.5}) != []


def test_the_load_generator_as_the_limit() -> None:
    facts = {"idle_in_transaction_avg": 12.0, "active_backends_avg": 8.0}
    assert said(FindingKind.IDLE, facts) == [
        "the server waits for the load generator: of 20.0 backends inside a transaction, "
        "12.0 are idle between statements"
    ]
    assert said(FindingKind.IDLE, facts | {"active_backends_avg": 48.0}) == []
    assert said(FindingKind.IDLE, {"idle_in_transaction_avg": 0.0, "active_backends_avg": 0.0}) == []
    assert said(FindingKind.IDLE, {"idle_in_transaction_avg": 12.0}) == []


def test_other_waits_are_named_and_background_idleness_is_not() -> None:
    facts = waits(LWLock__WALInsert=0.4, Timeout__VacuumDelay=0.3, Activity__WalWriterMain=0.9, CPU=0.9)
    assert said(FindingKind.WAIT, facts) == [
        "backends wait for LWLock:WALInsert in 40 % and Timeout:VacuumDelay in 30 % of samples"
    ]
    assert said(FindingKind.WAIT, waits(IO__WalSync=0.9, Lock__tuple=0.9, CPU=0.9)) == []
    assert said(FindingKind.WAIT, waits(LWLock__WALInsert=0.2)) == []


def test_a_wait_that_one_trial_did_not_see_counts_as_none_there() -> None:
    """0.8 in one of two trials is 0.4 on average; a trial without wait samples does not count."""
    plan = make_plan((DEFAULT,), (LARGE,))
    cell = plan.cells[0]
    trials = (
        make_trial(1, 1, cell, {"tps": 500.0, "wait_share.IO:WalSync": 0.8}),
        make_trial(2, 2, cell, {"tps": 500.0, "wait_share.CPU": 1.0}),
        make_trial(3, 3, cell, {"tps": 500.0}),
    )
    assert sentences(plan, trials, FindingKind.FLUSH, "default") == [
        "commits wait for the WAL flush in 40 % of samples (IO:WalSync 40 %)"
    ]


def test_evidence_is_the_figures_of_the_sentence() -> None:
    plan = make_plan((DEFAULT,), (LARGE,))
    trials = make_measured_trials(
        plan, lambda cell: waits(IO__WalSync=0.5, CPU=0.5) | {"disk_busy_share": 0.9}
    )
    (finding,) = [f for f in ask(plan, trials) if f.kind is FindingKind.FLUSH]
    assert finding.metrics == pytest.approx({"wait_share.IO:WalSync": 0.5, "disk_busy_share": 0.9})
    assert finding.trials == tuple(trial.number for trial in trials)


def test_failed_trials_are_no_evidence() -> None:
    plan = make_plan((DEFAULT,), (LARGE,))
    trials = make_measured_trials(plan, lambda cell: waits(IO__WalSync=0.5))
    (finding,) = [f for f in ask(plan, fail(trials, lambda t: t.number == 2)) if f.kind is FindingKind.FLUSH]
    assert 2 not in finding.trials
    assert [f.kind for f in ask(plan, fail(trials, lambda t: True))] == [FindingKind.FAILURE]


def machine(cell: Cell) -> float:
    free = cell[2] == "fsync=off"
    return (3525.0 if free else 582.0) if cell[1] == "scale 1" else (6000.0 if free else 4000.0)


def test_lock_share_of_a_gain() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL, LARGE))
    trials = make_measured_trials(plan, lambda cell: {"wal_sync_ms_avg": 1.4}, tps=machine, noise=0.002)
    (sentence,) = sentences(plan, trials, FindingKind.LOCK, "fsync=off")
    assert re.fullmatch(
        r"at scale 1 a transaction holds the branch row for 1\.4\d ms of flush and 28\d us of other work, "
        r"a gain of 6\.[01]x without the flush; 7[78] % \(7\d to 7\d\) of that gain, on the log scale, "
        r"is the lock, since with a row per client it is 1\.5x; "
        r"the server's own flush time of 1\.4 ms predicts 5\.9x",
        sentence,
    )
    (finding,) = [f for f in ask(plan, trials) if f.kind is FindingKind.LOCK]
    assert finding.trials == tuple(trial.number for trial in trials)


def test_lock_without_a_large_scale_says_why_there_is_no_share() -> None:
    plan = make_plan((DEFAULT, FSYNC_OFF), (SMALL,))
    trials = make_measured_trials(plan, lambda cell: {}, tps=machine)
    (sentence,) = sentences(plan, trials, FindingKind.LOCK, "fsync=off")
    assert "; lock and disk cannot be told apart: no round holds the same load" in sentence
    flat = tuple(replace(t, metrics={"tps": 500.0 + t.number % 3}) for t in trials)
    assert sentences(plan, flat, FindingKind.LOCK, "fsync=off") == []
