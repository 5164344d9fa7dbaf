"""What a study of standbys needs of the disk, against what its recordings and pairs are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from walproof.errors import StudyError
from walproof.facts import Install, Plan, Replay
from walproof.lab.asked import Overrides
from walproof.lab.kinds.replay.recording import recording_key
from walproof.lab.preflight import check, estimate
from walproof.lab.reading import check_study
from walproof.lab.study import ad_hoc, read_study, resolve


def _plan(name: str, embedded: Install, folder: Path) -> Plan:
    study, _, scripts = read_study(name)
    return resolve(study, Overrides(quick=True), folder=folder, scripts=scripts, given=(embedded,))


def _disk_bytes(plan: Plan) -> int:
    return estimate(plan, Path(plan.folder) / "templates").disk_bytes


def test_recordings_are_counted_and_not_variants(embedded: Install, tmp_path: Path) -> None:
    """hot_standby is read by standbys only: 32 variants of the factorial share 16 recordings."""
    plan = _plan("replay", embedded, tmp_path)
    recordings = {recording_key(plan, embedded.label, variant) for variant in plan.variants}
    assert (len(plan.variants), len(recordings)) == (32, 16)
    single = replace(plan, variants=plan.variants[:1])
    each = (_disk_bytes(plan) - _disk_bytes(single)) / 15
    # Measured on 18.4: 105 MB, of which 32 MB are segments.
    assert 105e6 < each < 210e6


def test_a_pair_takes_two_servers_and_their_wal(embedded: Install, tmp_path: Path) -> None:
    plan = _plan("synchronous", embedded, tmp_path)
    small = replace(plan, base_settings={**plan.base_settings, "max_wal_size": "128MB"})
    large = replace(plan, base_settings={**plan.base_settings, "max_wal_size": "1GB"})
    assert _disk_bytes(large) - _disk_bytes(small) == 2 * (896 << 20)


def _of_an_hour(plan: Plan) -> Plan:
    return replace(plan, workloads=tuple(replace(load, duration_s=3600.0) for load in plan.workloads))


def test_a_live_stream_keeps_all_wal_of_its_load(embedded: Install, tmp_path: Path) -> None:
    """It is not bounded by max_wal_size, which was asked for alone: long loads filled the disk."""
    full_speed = _of_an_hour(_plan("replication-live", embedded, tmp_path))
    assert _disk_bytes(full_speed) > 2 * 3600 * 100e6
    # 20,000 rows/s of 300 bytes, on both servers.
    offered = _of_an_hour(_plan("replication-behind", embedded, tmp_path))
    assert 2 * 3600 * 6e6 < _disk_bytes(offered) < 3 * 3600 * 6e6


def test_an_archive_keeps_all_wal_of_its_load(embedded: Install, tmp_path: Path) -> None:
    plan = _plan("backup", embedded, tmp_path)
    assert _disk_bytes(_of_an_hour(plan)) - _disk_bytes(plan) > 3600 * 25e6


def test_recordings_that_do_not_fit_are_refused_before_the_first(embedded: Install, tmp_path: Path) -> None:
    plan = _plan("replay", embedded, tmp_path)
    vast = replace(plan, kind=replace(plan.kind_as(Replay), rows=10**12))
    kept = tmp_path / "templates"
    kept.mkdir()
    (kept / "file").write_bytes(bytes(1 << 20))
    with pytest.raises(StudyError, match='study "replay" cannot run here') as refused:
        check(vast)
    assert "free disk" in str(refused.value.detail)
    assert f"\nwhat earlier runs prepared takes 1.00 MB and may be deleted: {kept}" in str(
        refused.value.detail
    )


def test_a_limit_of_open_files_has_a_hint_of_its_own(
    embedded: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _plan("replay", embedded, tmp_path)
    monkeypatch.setattr("walproof.lab.preflight.os.sysconf", lambda name: 64)
    with pytest.raises(StudyError, match="cannot run here") as refused:
        check(plan)
    assert "open files: needs about" in str(refused.value.detail)
    assert "the limit is 64" in str(refused.value.detail)
    assert refused.value.hint == "ulimit -n raises the limit for what this shell starts."


def test_servers_that_wait_count_among_open_files(
    embedded: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handle of each of their processes is open while they are stopped."""
    study = ad_hoc([{"wal_buffers": "64MB"}], {"name": "w", "clients": 30, "duration": 10}, ())
    plan = resolve(study, Overrides(design="sliced"), folder=tmp_path, given=(embedded,))
    assert len(plan.turns) == 2
    monkeypatch.setattr("walproof.lab.preflight.os.sysconf", lambda name: 150)
    with pytest.raises(StudyError, match="cannot run here") as refused:
        check(plan)
    assert "open files: needs about 208, the limit is 150" in str(refused.value.detail)


def test_a_method_that_cannot_be_had_is_refused_before_the_first_trial(
    embedded: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every trial of it would have failed; a variant that is optional is left out instead."""
    monkeypatch.setattr("walproof.workload.loading.steps.arrow.is_there", lambda: False)
    load = {"table": "t", "ddl": "CREATE TABLE t (x int)", "rows": 10}
    variants = [{"name": "plain"}, {"name": "arrow", "load": {"feed": "adbc"}}]
    study = {"name": "x", "title": "?", "workload": [{"name": "rows"}], "load": load, "variant": variants}
    plan = resolve(check_study(study, "test"), Overrides(), folder=tmp_path, given=(embedded,))
    with pytest.raises(StudyError, match='study "x" cannot run here') as refused:
        check(plan)
    lines = str(refused.value.detail).splitlines()
    assert lines == [
        f"arrow: PostgreSQL {embedded.label}: "
        "adbc-driver-postgresql and pyarrow are not installed (extra: arrow)"
    ]
