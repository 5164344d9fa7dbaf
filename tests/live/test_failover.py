"""A primary that dies under load, and what its promoted standby has of what clients were told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.schemas import assert_valid
from walproof.disk.simulated import STATE_FOLDER
from walproof.facts import Failover, FailoverConditions, Install, StandbysLayout
from walproof.facts.store import Store
from walproof.lab.kinds.failover.fail_over import PairConditions, fail_over
from walproof.postgres.workspace import Workspace

pytestmark = pytest.mark.live

# The machine's disk is no part of it, and makes a busy one slow.
QUICK = {"fsync": "off"}
FAR_S = 0.2
SLOW_FLUSH_S = 0.05


@pytest.mark.parametrize("level", ["remote_write", "on", "remote_apply"])
def test_what_a_standby_has_confirmed_is_never_lost(
    embedded: Install, workspace: Workspace, level: str
) -> None:
    settings = {**QUICK, "synchronous_commit": level}
    seen = fail_over(workspace, embedded, settings, Failover(1.0, 3), PairConditions(0.005), 1).metrics
    assert seen["commits_acknowledged"] > 0
    assert seen["commits_lost"] == 0
    assert "loss_window_ms" not in seen
    assert seen["latency_ms_p50"] >= 10  # there and back


@pytest.mark.parametrize("level", ["local", "off"])
def test_what_nobody_waited_for_is_lost_with_the_primary(
    embedded: Install, workspace: Workspace, level: str
) -> None:
    """What was acknowledged within the way to the standby cannot be there."""
    settings = {**QUICK, "synchronous_commit": level}
    seen = fail_over(workspace, embedded, settings, Failover(1.0, 3), PairConditions(FAR_S), 1).metrics
    assert 0 < seen["commits_lost"] < seen["commits_acknowledged"]
    assert seen["loss_window_ms"] > 0
    # The next one finds everything removed.
    assert not [path.name for path in workspace.folder.iterdir()]


def test_a_quorum_loses_nothing_and_a_cascade_ends_with_its_last(
    embedded: Install, workspace: Workspace
) -> None:
    """Of three that any two of have confirmed, the one with most WAL has all; the last of a chain what it was
    sent before both others ended."""
    layouts: tuple[StandbysLayout, ...] = ("any 2 of 3", "cascade")
    for number, layout in enumerate(layouts, start=1):
        conditions = PairConditions(standbys=layout)
        seen = fail_over(workspace, embedded, QUICK, Failover(0.5, 2), conditions, number).metrics
        assert 0 <= seen["commits_lost"] < seen["commits_acknowledged"]
        assert layout == "cascade" or seen["commits_lost"] == 0
        assert seen["promotion_s"] > 0
        assert not [path.name for path in workspace.folder.iterdir()]


def test_a_level_waits_for_the_slow_disk_of_its_standby_or_not(
    embedded: Install, workspace: Workspace
) -> None:
    """``on`` waits for the standby's flush, ``remote_write`` for its write. The primary's disk is fast."""
    slow = PairConditions(standby_device=f"flush={SLOW_FLUSH_S * 1000:.0f}ms", bytes_per_s=1_000_000)
    p50_ms = {}
    for number, level in enumerate(("on", "remote_write"), start=1):
        settings = {"synchronous_commit": level}
        seen = fail_over(workspace, embedded, settings, Failover(1.0, 1), slow, number).metrics
        assert seen["commits_lost"] == 0
        p50_ms[level] = seen["latency_ms_p50"]
    assert p50_ms["on"] >= 1000 * SLOW_FLUSH_S
    assert not list(STATE_FOLDER.glob(f"{workspace.folder.name}*"))


def test_a_study_of_failover_counts_them_in_its_report(tmp_path: Path) -> None:
    (tmp_path / "away.toml").write_text(
        """
name = "away"
title = "?"
initdb = ["--wal-segsize=4"]
[base]
fsync = "off"
[design]
rounds = 1
[failover]
load = "1s"
[[workload]]
name = "ledger"
[factors]
synchronous_commit = ["on", "local"]
distance = ["0ms", "100ms"]
"""
    )
    done = walproof("run", "away.toml", "--pg", "embedded", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "out" / "walproof.sqlite")
    run = store.run("last")
    trials = {trial.variant: trial for trial in store.trials(run.id)}
    store.close()
    assert [trial.reason for trial in trials.values()] == [None] * 4
    far = run.plan.variant("synchronous_commit=local, distance=100ms")
    assert far.conditions_as(FailoverConditions).distance_s == 0.1
    assert trials["synchronous_commit=on, distance=100ms"].metrics["commits_lost"] == 0
    assert trials["synchronous_commit=local, distance=100ms"].metrics["commits_lost"] > 0
    assert "Lost at a failover" in done.stdout
    page = json.loads(walproof("report", "last", "--out", "out", "--format", "json", cwd=tmp_path).stdout)
    assert_valid("report", page)
    assert page["analysis"]["failed"] == 0


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('distance = ["0ms", "2h"]', "is too far"),
        ('distance = ["0ms", "far"]', 'distance "far"'),
        ('bandwidth = ["none", "narrow"]', 'bandwidth "narrow"'),
        ('bandwidth = ["none", "1MB/min"]', 'bandwidth "1MB/min" is impossible'),
        ('bandwidth = ["none", "1kB/s"]', 'bandwidth "1kB/s" is impossible'),
        ('standby_device = ["none", "abacus"]', 'invalid device: "abacus"'),
    ],
)
def test_an_impossible_pair_is_refused(tmp_path: Path, table: str, says: str) -> None:
    text = f'name = "x"\ntitle = "?"\n[failover]\n[[workload]]\nname = "w"\n[factors]\n{table}\n'
    (tmp_path / "x.toml").write_text(text)
    done = walproof("run", "x.toml", "--pg", "embedded", "--dry-run", cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
