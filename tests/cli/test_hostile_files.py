"""Recordings and calibrations of strangers: whatever their JSON says, commands answer or say what it is."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.test_recovery_costs import calibration
from tests.cli.command import walproof
from tests.golden.unpack import unpack
from tests.hostile import check
from walproof.facts.calibration import write_calibration
from walproof.facts.server import SERVER_FILE
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.images import IMAGES_FILE
from walproof.wal.recording import RECORDING_FILE, RELATIONS_FILE, Position, Recording, write_recording

COUNT = 8
WHATIF, STATS = ("wal", "whatif", "recording"), ("wal", "stats", "recording", "--by", "relation")
PREDICT = ("recovery", "predict", "recording")
SETTINGS = {
    "max_wal_size": "1GB", "min_wal_size": "80MB", "checkpoint_timeout": "5min", "full_page_writes": "on",
    "checkpoint_completion_target": "0.9", "wal_compression": "off", "wal_log_hints": "off",
    "wal_level": "replica", "data_checksums": "off", "shared_buffers": "128MB", "wal_segment_size": "1MB",
    "server_version": "16.14 (Debian 16.14-1)",
}  # fmt: skip


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    folder = tmp_path / "recording"
    folder.mkdir()
    unpack(16, folder)
    found = stats(folder)
    middle = Lsn((int(found.start) + int(found.end)) // 2)
    positions = (
        Position(1.7e9, found.start),
        Position(1.7e9 + 300, middle),
        Position(1.7e9 + 600, found.end),
    )
    write_recording(
        folder,
        Recording(
            found.system_identifier, 160014, 1, 1 << 20, SETTINGS,
            positions[0], positions[-1], positions, "time",
        ),
    )  # fmt: skip
    return folder


def test_recording_json(recording: Path) -> None:
    path = recording / RECORDING_FILE
    commands = (WHATIF, (*WHATIF, "--json"), (*WHATIF, "--recovery-target", "60s"), PREDICT)
    check(path, json.loads(path.read_text()), commands, recording.parent, COUNT)


def test_relations_json(recording: Path) -> None:
    found = stats(recording)
    relations = [
        {
            "tablespace": row.tablespace, "database": row.database, "relation": row.relation,
            "database_name": "shop", "name": f"public.t{number}", "kind": "table", "method": None,
            "owner": None,
        }
        for number, row in enumerate(found.relations[:4])
    ]  # fmt: skip
    names = {
        "format": 1, "system_identifier": found.system_identifier, "version_num": 160014, "taken_at": 0.0,
        "relations": relations, "left_out": ["other"],
    }  # fmt: skip
    named = (*STATS, "--map", f"recording/{RELATIONS_FILE}")
    check(recording / RELATIONS_FILE, names, (STATS, named, (*named, "--json")), recording.parent, COUNT)


def test_images_json(recording: Path) -> None:
    row = stats(recording).relations[0]
    sums = [20, 160000, [80000, 90000, 70000], 100, 50, [0.1, 0.1, 0.1]]
    data = {
        "format": 2, "nanoseconds": [100, 50, 60],
        "forks": [[[row.tablespace, row.database, row.relation, 0], sums]],
    }  # fmt: skip
    check(recording / IMAGES_FILE, data, (WHATIF, (*WHATIF, "--json")), recording.parent, COUNT)


def test_a_calibration(recording: Path) -> None:
    path = recording.parent / "calibration.json"
    made = calibration(0.0)
    write_calibration(path, replace(made, machine=replace(made.machine, version="16.14")))
    data = json.loads(path.read_text())
    lists = {name: data[name] for name in ("phases", "cold", "checkpoints")}
    # A change meets the machine or a kind of list as often as one of 400 phases.
    few = {**data, **{name: rows[:2] for name, rows in lists.items()}}

    def text_of(changed: Any) -> str:
        """The change, and all that the file had, so that it tells enough."""
        whole = {name: changed[name] + lists[name] for name in lists if isinstance(changed.get(name), list)}
        return json.dumps({**changed, **whole})

    predict = (*PREDICT, "--calibration", path.name, "--other-machine")
    check(path, few, (predict, (*predict, "--json")), recording.parent, COUNT, text_of)


def test_what_is_no_file_is_not_waited_for(recording: Path) -> None:
    """A FIFO that nobody writes to, and a device without an end, under the names of files."""
    (recording / SERVER_FILE).symlink_to("/dev/zero")
    os.mkfifo(recording.parent / "calibration.json")
    for words in (("advise", "recording"), (*PREDICT, "--calibration", "calibration.json")):
        done = walproof(*words, cwd=recording.parent, timeout_s=60)
        assert done.returncode == 2, done.stderr
        assert "it is not a regular file" in done.stderr
    (recording / SERVER_FILE).unlink()
    os.mkfifo(recording / SERVER_FILE)
    done = walproof("advise", "recording", cwd=recording.parent, timeout_s=60)
    assert "it is not a regular file" in done.stderr
