"""A small calibration on real servers: phases are seen under both sizes, and costs come of them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.schemas import assert_valid
from walproof.analysis.recovery_costs import TERMS
from walproof.analysis.recovery_fit import fit
from walproof.cli.recovery import calibrate as calibrate_command
from walproof.errors import DiskError
from walproof.facts import Install
from walproof.lab.recovery import calibration as lab
from walproof.lab.recovery.calibration import calibrate
from walproof.lab.recovery.crash import Cache
from walproof.postgres.cache import cache_folder
from walproof.postgres.workspace import Workspace
from walproof.probe.environment import this_machine

PHASES = {
    "insert", "wide", "dropped", "scatter", "random read", "image", "hot", "random image", "random",
    "few image", "few", "few keys image", "few keys",
    "full image", "full", "sequence", "uuid", "uuid again", "mixed", "mixed few", "read", "pglz", "lz4",
    "zstd", "commit", "prune", "delete", "vacuum", "toast", "gin",
}  # fmt: skip
pytestmark = pytest.mark.live


@pytest.mark.long
def test_phases_are_told_apart(
    embedded: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = (("scatter", Cache.WARM), ("uuid", Cache.COLD))
    monkeypatch.setattr(lab, "CHECKPOINTS_AFTER", places)
    said: list[str] = []
    found = calibrate(embedded, workspace, said.append, share=0.1, segment_mb=1)
    assert len(said) == lab.steps()
    assert (found.machine.cpu, found.machine.cores, found.machine.page_bytes) == this_machine()
    assert found.machine.version == embedded.version
    # Segments of 1 MB can pass between two looks, so how many phases are seen is a matter of time.
    *replayed, asked, read, first_use = found.phases
    assert {phase.phase for phase in replayed} <= PHASES
    assert all(phase.cpu_s >= 0 and phase.work["records"] > 0 for phase in replayed)
    for phase, name, counts in (
        (asked, "asked for", {"prefetches": 1638}),
        (read, "read again", {"reads": 1638, "far_reads": 1638}),
        (first_use, "first use", {"frames": 6553}),
    ):
        assert phase.phase == name
        assert phase.cpu_s > 0
        assert {quantity: count for quantity, count in phase.work.items() if count} == counts
    assert {(phase.buffers, phase.prefetch) for phase in replayed} == {
        (buffers, prefetch) for buffers in (6553, 819) for prefetch in (True, False)
    }
    assert not any(phase.work["prefetches"] for phase in replayed if not phase.prefetch)
    assert {measured.phase for measured in found.cold} <= PHASES
    assert {(measured.buffers, measured.prefetch) for measured in found.cold} == {(6553, True), (6553, False)}
    requests = {(measured.phase, measured.prefetch): measured.requests for measured in found.cold}
    assert sum(requests.values()) > 0
    if {("read", True), ("read", False)} <= set(requests):
        assert requests["read", False] < requests["read", True], "the kernel reads pages in order together"
    by_name = {row.phase: row.work for row in replayed if row.buffers == 819 and row.prefetch}
    if "insert" in by_name:
        assert by_name["insert"]["records"] == pytest.approx(50_000, rel=0.02)
        assert by_name["insert"]["changes"] == pytest.approx(50_000, rel=0.02)
    if "commit" in by_name:
        # Every second record is a commit, which changes no page.
        assert by_name["commit"]["changes"] == pytest.approx(by_name["commit"]["records"] / 2, rel=0.1)
    if "image" in by_name:
        assert by_name["image"]["changes"] < 0.1 * by_name["image"]["records"]
    if "random" in by_name:
        assert by_name["random"]["far_reads"] > 1000, "more pages than buffers, in no order"
    with_room = [row.work for row in replayed if row.buffers == 6553 and row.phase == "random read"]
    for work in with_room:
        assert work["far_reads"] > 0.3 * work["records"], "pages that nobody had read before"
        assert work["evictions"] < 0.01 * work["far_reads"]
    if "pglz" in by_name:
        assert by_name["pglz"]["images_pglz"] >= 300
    if "full" in by_name:
        # Every page is full by then, and what is updated again is pruned before.
        assert by_name["full"]["compactions"] > 3000
    if "dropped" in by_name:
        # 20 tables of 40 pages, and what their free space maps and the catalog cut off.
        assert by_name["dropped"]["extensions"] == pytest.approx(800, rel=0.2)
    for mixed in {"mixed", "mixed few"} & by_name.keys():
        assert by_name[mixed]["unforeseen"] > 0.15 * by_name[mixed]["records"]
    if "mixed few" in by_name:
        assert by_name["mixed few"]["recent_misses"] < 0.02 * by_name["mixed few"]["records"]
    if "wide" in by_name:
        # Four rows a page: every fourth record is of another kind, as expected.
        assert by_name["wide"]["unforeseen"] < 0.05 * by_name["wide"]["records"]
    if "sequence" in by_name:
        assert by_name["sequence"]["unforeseen"] < 0.1 * by_name["sequence"]["records"]
    assert {run.is_cold for run in found.checkpoints} == {True, False}
    for run in found.checkpoints:
        assert run.written == pytest.approx(run.resident, rel=0.01, abs=20)
    assert found.read_ahead_kb > 0
    assert found.read_iops is not None
    assert found.read_iops > 0
    coefficients = fit(found)
    assert all(coefficients.cpu_us[term.name] >= 0 for term in TERMS)
    assert sum(coefficients.cpu_us.values()) > 0
    # Another one can follow in the same workspace.
    assert not {"calibration", "crash"} & {path.name for path in workspace.folder.iterdir()}


def test_the_command_prints_what_it_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A small calibration in place of the whole one, which takes two minutes."""
    monkeypatch.setattr(lab, "calibrate", partial(calibrate, share=0.03, segment_mb=1))
    monkeypatch.setattr(lab, "CHECKPOINTS_AFTER", ())
    path = tmp_path / "costs.json"
    calibrate_command(pg="embedded", on=cache_folder("work"), to=path, add=False, json=True)
    shown = capsys.readouterr().out
    assert shown == path.read_text()
    kept = json.loads(shown)
    assert_valid("recovery-calibrate", kept)
    assert kept["machine"]["cores"] == this_machine()[1]


def test_too_little_space_is_named(
    embedded: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "NEED_BYTES", 1 << 60)
    with pytest.raises(DiskError, match="too little space") as caught:
        calibrate(embedded, workspace, print)
    assert "got" in str(caught.value.detail)
