"""Fixed WAL replayed on real servers: counts that do not depend on the machine, and a report of them."""

from __future__ import annotations

import json
import shutil
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.schemas import assert_valid
from walproof.errors import DiskError
from walproof.facts import Install, ReplayConditions, Trial
from walproof.facts.store import Store
from walproof.lab.asked import Overrides
from walproof.lab.kinds.replay.recording import ReplayRecording, prepare_recordings
from walproof.lab.kinds.replay.run import ReplayRun
from walproof.lab.reading import check_study
from walproof.lab.schedule import Unseen
from walproof.lab.study import resolve
from walproof.lab.trial import Bench
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import discover
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.units import Lsn

pytestmark = pytest.mark.live

STUDY = """
name = "small"
title = "?"
baseline = "plain"
[design]
rounds = 1
probes = []
[replay]
rows = 3000
preloaded_rows = 5000
[[workload]]
name = "inserts"
[[variant]]
name = "plain"
settings = { full_page_writes = "on", hot_standby = "on" }
[[variant]]
name = "closed"
settings = { full_page_writes = "on", hot_standby = "off" }
[[variant]]
name = "no images"
settings = { full_page_writes = "off", cache = "cold" }
"""
HAS_STRACE = shutil.which("strace") is not None


def _run(folder: Path, *options: str) -> tuple[Trial, ...]:
    (folder / "small.toml").write_text(STUDY)
    done = walproof("run", "small.toml", "--out", "out", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    store = Store(folder / "out" / "walproof.sqlite")
    trials = store.trials(store.run("last").id)
    store.close()
    assert [trial.reason for trial in trials] == [None] * len(trials)
    return trials


def test_the_same_wal_is_replayed_and_accounted_for(tmp_path: Path) -> None:
    """On the oldest and the newest PostgreSQL at hand."""
    installs = sorted(discover(), key=lambda install: install.version_num)
    chosen = (
        [installs[0], installs[-1]] if installs[0].version_num < installs[-1].version_num else installs[:1]
    )
    named = [word for server in chosen for word in ("--pg", server.bindir)]
    found = _run(tmp_path, *named)
    # So few rows may be replayed before anything is counted, and then that is said.
    for trial in found:
        if trial.variant == "plain":
            is_profiled = any(name.startswith("profile_") for name in trial.metrics)
            assert is_profiled or any(warning.startswith("profile: ") for warning in trial.warnings)
    for install in chosen:
        _check(install, {t.variant: t.metrics for t in found if t.install.startswith(install.version)})
    page = json.loads(walproof("report", "last", "--out", "out", "--format", "json", cwd=tmp_path).stdout)
    assert_valid("report", page)
    assert page["analysis"]["metric"] == "startup_us_per_row"
    text = walproof("show", "last", "--out", "out", cwd=tmp_path).stdout
    assert "one core replays" in text
    long = walproof("report", "last", "--out", "out", "--format", "md", cwd=tmp_path).stdout
    assert "Where the CPU goes" in long


def _check(install: Install, trials: dict[str, Mapping[str, float]]) -> None:
    plain, closed, images_off = trials["plain"], trials["closed"], trials["no images"]
    # A heap and an index record a row, and little else.
    for metrics in trials.values():
        assert 2.0 <= metrics["records_per_row"] < 2.5
        assert metrics["startup_us_per_row"] == pytest.approx(1e6 * metrics["startup_cpu_s"] / 3000)
        assert metrics["rows_per_s_max"] == pytest.approx(1e6 / metrics["startup_us_per_row"])
        assert metrics["minor_faults"] > 0
    # One variant is profiled, in a replay of its own.
    for metrics in (closed, images_off):
        assert not [name for name in metrics if name.startswith("profile_")]
    # What only a standby reads shares the recording.
    assert closed["wal_bytes_replayed"] == plain["wal_bytes_replayed"]
    assert images_off["wal_bytes_replayed"] < plain["wal_bytes_replayed"]
    assert images_off["fpi_per_row"] < 0.1 * plain["fpi_per_row"]
    if HAS_STRACE:
        # Before 14 the size of a file was asked for at each block (commit c5315f4f44).
        if install.version_num < 140000:
            assert plain["lseek_per_record"] > 1
        else:
            assert plain["lseek_per_record"] < 0.2


@pytest.mark.skipif(not HAS_STRACE, reason="strace is not installed")
def test_who_observes_late_misses_no_record(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the oldest PostgreSQL at hand: so few rows are replayed long before a late observer attaches."""
    install = reachable_install(min(discover(), key=lambda install: install.version_num), server_user())
    study = check_study(tomllib.loads(STUDY), "test")
    plan = resolve(study, Overrides(), folder=workspace.work, given=(install,))
    bench = Bench(plan, workspace, {install.label: install}, Path(), {}, Unseen())
    recording = prepare_recordings(bench)[(install.label, "plain")]
    begin = ReplayRun._start

    def begin_late(run: ReplayRun, cluster: Cluster) -> int:
        pid = begin(run, cluster)
        time.sleep(0.5)
        return pid

    monkeypatch.setattr(ReplayRun, "_start", begin_late)
    counted = ReplayRun(workspace, install, recording, {}, ReplayConditions()).count_syscalls("late")
    assert counted.warnings == ()
    # Each page of WAL is read by itself (PostgreSQL: XLogPageRead).
    pages = recording.wal_bytes / 8192
    assert counted.metrics["pread64_per_record"] * recording.records > 0.9 * pages


def test_without_strace_it_says_so(
    embedded: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walproof.lab.kinds.replay.run.shutil.which", lambda _: None)
    recording = ReplayRecording(workspace.folder, Lsn(0), Lsn(0), 1, 1, 0, 0)
    run = ReplayRun(workspace, embedded, recording, {}, ReplayConditions())
    seen = run.count_syscalls("uncounted")
    assert seen.metrics == {}
    assert seen.warnings == ("strace is not installed: system calls are not counted",)


def test_a_disk_that_takes_no_copy_is_told_as_such(
    embedded: Install, workspace: Workspace, capfd: pytest.CaptureFixture[str]
) -> None:
    """Here for want of rights, which a test can take away, as elsewhere for want of room."""
    folder = workspace.make_folder("recording")
    for name in ("data/pg_wal", "wal"):
        (folder / name).mkdir(parents=True)
    (folder / "wal" / "segment").touch(mode=0)
    recording = ReplayRecording(folder, Lsn(0), Lsn(0), 1, 1, 0, 0)
    run = ReplayRun(workspace, embedded, recording, {}, ReplayConditions())
    with pytest.raises(DiskError, match="could not copy the WAL of the recording") as raised:
        run.measure("uncopied")
    assert "Permission denied" in str(raised.value.detail)
    with pytest.raises(DiskError, match="could not write back the disk of"):
        templates.sync(folder / "none")
    assert capfd.readouterr() == ("", "")
