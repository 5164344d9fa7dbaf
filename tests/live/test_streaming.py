"""A loaded primary and its streaming standby, on real servers: rows, WAL and lag that add up."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.live.pair import pid_of, running_pair
from tests.postgres.replication import query, run, wait_until
from walproof.facts import Install, Trial
from walproof.facts.store import Store
from walproof.postgres.install import discover
from walproof.postgres.workspace import Workspace
from walproof.probe.stream import STAGES, StandbyEye, StreamSampler, replay_lag_s

pytestmark = pytest.mark.live

STUDY = """
name = "small"
title = "?"
[base]
fsync = "off"
autovacuum = "off"
[design]
rounds = 1
probes = []
[streaming]
preloaded_rows = 2000
rows_per_commit = 50
[[workload]]
name = "full"
clients = 2
threads = 2
duration = "1s"
[[variant]]
name = "plain"
[[variant]]
name = "closed"
settings = { hot_standby = "off" }
"""
BEHIND = """
[[variant]]
name = "held"
settings = { replay_cpu = "1%" }
[[variant]]
name = "narrow"
settings = { bandwidth = "500kB/s" }
"""


def test_a_live_stream_is_measured_and_reported(tmp_path: Path) -> None:
    """On the oldest PostgreSQL at hand and the newest."""
    installs = sorted(discover(), key=lambda install: install.version_num)
    named = [word for bindir in {installs[0].bindir, installs[-1].bindir} for word in ("--pg", bindir)]
    (tmp_path / "small.toml").write_text(STUDY)
    done = walproof("run", "small.toml", "--out", "out", *named, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "out" / "walproof.sqlite")
    found = store.run("last")
    trials = store.trials(found.id)
    series = {(item.trial, item.name): item for item in store.series(found.id)}
    store.close()
    assert [trial.reason for trial in trials] == [None] * 2 * len(found.plan.installs)
    for trial in trials:
        _check(trial)
        by_stage = [series[(trial.number, f"lag_bytes.{stage}")] for stage in STAGES]
        assert sum(waits.values[-1] for waits in by_stage[1:]) == 0  # the standby has caught up
        assert len({waits.t_s for waits in by_stage}) == 1
    assert "the primary wrote" in done.stdout
    assert "kept up" in done.stdout
    page = walproof("report", "last", "--out", "out", "--format", "md", cwd=tmp_path).stdout
    assert "Behind: full" in page.replace("\\", "")


def _check(trial: Trial) -> None:
    metrics = trial.metrics
    assert metrics["rows"] > 0
    assert metrics["rows"] % 50 == 0
    # A heap and an index record a row, and little else.
    assert 2.0 <= metrics["records_per_row"] < 2.6
    assert metrics["wal_bytes_per_row"] == pytest.approx(metrics["wal_bytes"] / metrics["rows"])
    assert metrics["startup_us_per_row"] == pytest.approx(1e6 * metrics["startup_cpu_s"] / metrics["rows"])
    assert metrics["startup_cpu_s"] > 0
    assert metrics["lag_bytes_max"] >= metrics["lag_bytes_max.replay"]
    assert trial.window_s is not None
    assert metrics["rows_per_s"] == pytest.approx(metrics["rows"] / trial.window_s)


def test_who_cannot_follow_falls_behind_and_catches_up(tmp_path: Path, embedded: Install) -> None:
    """With hardly any CPU, and over a narrow link: WAL waits where it should.

    300 commits a second need 5 % of a core to be replayed, 2 MB/s to be sent: much more than there is.
    """
    text = STUDY[: STUDY.index("[[variant]]")] + BEHIND
    text = text.replace('duration = "1s"', 'duration = "1s"\nrate = 300')
    (tmp_path / "small.toml").write_text(text)
    done = walproof("run", "small.toml", "--out", "out", "--pg", "embedded", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    store = Store(tmp_path / "out" / "walproof.sqlite")
    trials = {trial.variant: trial for trial in store.trials(store.run("last").id)}
    store.close()
    for trial in trials.values():
        assert trial.reason is None
        _check(trial)
        at_end = {stage: trial.metrics[f"lag_bytes_end.{stage}"] for stage in STAGES}
        assert sum(at_end.values()) == trial.metrics["lag_bytes_end"]
    held, narrow = trials["held"].metrics, trials["narrow"].metrics
    assert held["startup_core_share"] < 0.1
    assert held["lag_bytes_max.replay"] > held["lag_bytes_max"] / 2
    assert narrow["lag_bytes_max.network"] + narrow["lag_bytes_max.write"] > narrow["lag_bytes_max"] / 2
    assert narrow["catch_up_s"] > 0


def test_where_the_lag_is(embedded: Install, workspace: Workspace) -> None:
    """With replay paused all of it waits for replay, and ages; with the link cut the stream is gone."""
    with running_pair(embedded, workspace) as pair:
        pair.catch_up()
        eye = StandbyEye(pair.standby.conninfo, pid_of(pair.standby, "startup"))
        with (
            contextlib.closing(eye),
            StreamSampler(pair.primary.conninfo, "standby", eye.look) as sampler,
        ):
            assert replay_lag_s(sampler.samples, 0) == 0
            query(pair.standby, "SELECT pg_wal_replay_pause()")
            end = run(
                pair.primary, "INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 2000) i"
            )
            wait_until(lambda: sampler.last.flushed_there >= end)
            behind = sampler.last
            assert dict(zip(STAGES, behind.stages, strict=True))["replay"] > 1_000_000
            assert sum(behind.stages) == behind.lag_bytes
            wait_until(lambda: replay_lag_s(sampler.samples, len(sampler.samples) - 1) > 0.2)
            query(pair.standby, "SELECT pg_wal_replay_resume()")
            wait_until(lambda: sampler.last.replayed >= end)
            last = len(sampler.samples) - 1
            assert sampler.samples[last].startup.cpu_s > behind.startup.cpu_s
            pair.link.sever()
            wait_until(lambda: sampler.failure is not None)
            assert sampler.failure == "the standby no longer streams"
