"""A calibration is kept as it was, and what is no calibration is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from walproof.errors import StoreError
from walproof.facts.calibration import (
    Calibration,
    CheckpointRun,
    ColdReplay,
    Machine,
    PhaseReplay,
    SyncCosts,
    calibration_path,
    find_calibrations,
    pooled,
    read_calibration,
    write_calibration,
)

MACHINE = Machine("Some (R) CPU @ 2 GHz", 4, "18.4", 4096, huge_pages=True, data_checksums=True)
CALIBRATION = Calibration(
    MACHINE,
    made_at=1.5,
    phases=(PhaseReplay("insert", 8, True, 0.25, {"records": 10.0}),),
    cold=(ColdReplay("insert", 8, True, 2.0, 1.0, 5e8, 100.0),),
    checkpoints=(CheckpointRun("insert", 8, 7, 7.0, 0.0, 3.0, False, 4, 0.5, 0.004),),
    read_iops=None,
    read_latency_us=80.0,
    read_ahead_kb=128,
    fresh_touch_us=16.0,
    touch_us=2.5,
)


def test_it_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALPROOF_DATA", str(tmp_path))
    path = calibration_path(MACHINE.cpu, MACHINE.cores, MACHINE.version)
    assert path == tmp_path / "recovery" / "some-r-cpu-2-ghz-4-pg18.4.json"
    write_calibration(path, CALIBRATION)
    assert read_calibration(path) == CALIBRATION
    later = replace(CALIBRATION, made_at=9.0, machine=replace(MACHINE, version="15.18"))
    write_calibration(calibration_path(MACHINE.cpu, MACHINE.cores, "15.18"), later)
    (path.parent / "broken.json").write_text("{")
    assert [calibration for _, calibration in find_calibrations()] == [later, CALIBRATION]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 0}', '{"format": 2}', '{"format": 1, "machine": {"cpu": 5}}']
)
def test_what_is_no_calibration_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(StoreError, match=r"x\.json"):
        read_calibration(tmp_path / "x.json")


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught:
        read_calibration(tmp_path / "absent.json")
    assert "calibrate" in str(caught.value.hint)


def test_what_a_file_lacks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"phases": []}')
    with pytest.raises(StoreError, match="is not a calibration") as caught:
        read_calibration(path)
    assert caught.value.detail == 'It has no "format".'


def test_calibrations_of_one_machine_are_taken_together() -> None:
    later = replace(
        CALIBRATION,
        made_at=9.0,
        phases=(PhaseReplay("insert", 8, True, 0.5, {"records": 12.0}),),
        read_iops=900.0,
        read_latency_us=100.0,
        fresh_touch_us=3.0,
        touch_us=3.5,
    )
    found = pooled([CALIBRATION, later])
    assert found.phases == CALIBRATION.phases + later.phases
    assert (len(found.cold), len(found.checkpoints)) == (2, 2)
    assert (found.made_at, found.read_iops, found.read_latency_us) == (9.0, 900.0, 90.0)
    assert (found.fresh_touch_us, found.touch_us) == (16.0, 3.0)
    other = replace(later, machine=replace(MACHINE, cores=8))
    with pytest.raises(StoreError, match="different machines") as caught:
        pooled([CALIBRATION, other])
    assert caught.value.detail == "cores: 8 -> 4"


def test_the_sync_of_files_is_kept_and_older_files_lack_it(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    costs = SyncCosts(10.0, 20.0, 30.0, 40.0)
    write_calibration(path, replace(CALIBRATION, sync=costs))
    assert read_calibration(path).sync == costs
    data = json.loads(path.read_text())
    del data["sync"]
    path.write_text(json.dumps(data))
    older = read_calibration(path)
    assert older.sync is None
    twice = replace(CALIBRATION, sync=replace(costs, file_us=30.0))
    assert pooled([older, twice, replace(CALIBRATION, sync=costs)]).sync == replace(costs, file_us=20.0)


def test_differences_are_named() -> None:
    assert MACHINE.differences(MACHINE) == ()
    assert MACHINE.differences(replace(MACHINE, cores=8)) == ("cores: 4 -> 8",)
