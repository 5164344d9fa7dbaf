"""What a study of standbys needs of the disk, against what its recordings and pairs are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from walproof.errors import StudyError
from walproof.facts import Install, Plan
from walproof.lab.preflight import check, estimate
from walproof.lab.replay_recording import recording_key
from walproof.lab.study import Overrides, read_study, resolve


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
    one = replace(plan, variants=plan.variants[:1])
    each = (_disk_bytes(plan) - _disk_bytes(one)) / 15
    # Measured on 18.4: 105 MB, of which 32 MB are segments.
    assert 105e6 < each < 210e6


def test_a_pair_takes_two_servers_and_their_wal(embedded: Install, tmp_path: Path) -> None:
    for name in ("replication-live", "synchronous"):
        plan = _plan(name, embedded, tmp_path)
        small = replace(plan, base_settings={**plan.base_settings, "max_wal_size": "128MB"})
        large = replace(plan, base_settings={**plan.base_settings, "max_wal_size": "1GB"})
        assert _disk_bytes(large) - _disk_bytes(small) == 2 * (896 << 20)


def test_recordings_that_do_not_fit_are_refused_before_the_first(embedded: Install, tmp_path: Path) -> None:
    plan = _plan("replay", embedded, tmp_path)
    assert plan.replay is not None
    vast = replace(plan, replay=replace(plan.replay, rows=10**12))
    with pytest.raises(StudyError, match='study "replay" cannot run here') as refused:
        check(vast)
    assert "free disk" in str(refused.value.detail)
