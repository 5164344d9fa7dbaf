"""Stripped copies of what servers wrote: nothing of anybody's data, and the same totals and simulations."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.wal.canary import WORD, carriers, crash_and_branch, left_in, write_everywhere
from tests.wal.server import Server
from walproof.facts import Install
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.images import IMAGES_FILE
from walproof.wal.recording import (
    RECORDING_FILE,
    RELATIONS_FILE,
    Position,
    Recording,
    read_recording,
    write_recording,
)
from walproof.wal.recovery import analyse
from walproof.wal.strip import strip
from walproof.wal.whatif import Target, simulate

pytestmark = pytest.mark.live


@pytest.mark.pg(ends=True)
def test_nothing_of_anybody_s_data_is_left(install: Install, tmp_path: Path) -> None:
    with Server(Path(install.bindir), segment_mb=1, checksums=True) as server:
        start = server.insert_lsn()
        expected = write_everywhere(server)
        server.insert_lsn()
        found = carriers(server.wal, start)
        missing = sorted(expected - found.keys())
        assert not missing, "the word has to be there before it can be missing"
        crash_and_branch(server)
        server.stop()
        wal = tmp_path / "wal"
        shutil.copytree(server.wal, wal)
        history = wal / "00000002.history"
        assert WORD in history.read_text()
        position = Position(0.0, Lsn(0))
        settings = {
            "max_wal_size": "1GB",
            "server_version": f"{server.major}.1 ({WORD})",
            "wal_level": WORD * 4,
            WORD: "1",
        }
        write_recording(
            wal,
            Recording(
                1, server.major * 10000, 1, 1 << 20, settings, position, position, (), f"FATAL: {WORD}"
            ),
        )
        (wal / RELATIONS_FILE).write_text(WORD)
        files = left_in(wal)
        assert {history.name, RECORDING_FILE, RELATIONS_FILE} <= set(files)
        assert len(files) > 10
        done = strip(wal, folder=tmp_path / "copy")
        assert left_in(tmp_path / "copy") == []
        names = {file.name for file in (tmp_path / "copy").iterdir() if file.suffix != ".zst"}
        assert names == {history.name, IMAGES_FILE, RECORDING_FILE}
        kept = read_recording(tmp_path / "copy")
        assert kept.settings == {"max_wal_size": "1GB", "server_version": f"{server.major}.1"}
        assert kept.ended_because == "ended early"
        before, after = stats(wal), stats(tmp_path / "copy")
        assert (before.totals, before.accounting, before.relations) == (
            after.totals, after.accounting, after.relations
        )  # fmt: skip
        assert before.accounting.overwritten_bytes > 0
        assert done.records == before.totals.records
        works = [analyse(folder, buffers=[1 << 10, 1 << 14]).steps for folder in (wal, tmp_path / "copy")]
        assert works[0] == works[1]
        assert works[0][-1].relations_dropped > 0
        targets = [Target(max_wal_size_mb=size) for size in (16, 64)]
        whole, other = (simulate(folder, targets=targets) for folder in (wal, tmp_path / "copy"))
        assert whole.recorded.checkpoints == other.recorded.checkpoints
        assert [made.images for made in whole.outcomes] == [made.images for made in other.outcomes]
