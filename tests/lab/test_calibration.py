"""A small calibration on real servers: phases are seen under both sizes, and costs come of them."""

from __future__ import annotations

import pytest

from walproof.analysis.recovery import TERMS, fit
from walproof.errors import DiskError
from walproof.facts import Install
from walproof.lab import calibration as lab
from walproof.lab.calibration import calibrate, this_machine
from walproof.postgres.workspace import Workspace

PHASES = {
    "insert", "wide", "scatter", "image", "hot", "random image", "random", "sequence", "uuid", "uuid again",
    "read", "pglz", "lz4", "zstd", "commit", "prune", "delete", "vacuum", "toast", "gin",
}  # fmt: skip
pytestmark = pytest.mark.live


def test_phases_are_told_apart(
    embedded: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "REPEATS", 1)
    monkeypatch.setattr(lab, "CHECKPOINTS_AFTER", ("scatter",))
    said: list[str] = []
    found = calibrate(embedded, workspace, said.append, share=0.1, segment_mb=1)
    assert (found.machine.cpu, found.machine.cores, found.machine.page_bytes) == this_machine()
    assert found.machine.version == embedded.version
    # Segments of 1 MB can pass between two looks, so how many phases are seen is a matter of time.
    assert {phase.phase for phase in found.phases} <= PHASES
    assert all(phase.cpu_s >= 0 and phase.work["records"] > 0 for phase in found.phases)
    assert {(phase.buffers, phase.prefetch) for phase in found.phases} == {
        (buffers, prefetch) for buffers in (6553, 819) for prefetch in (True, False)
    }
    assert not any(phase.work["prefetches"] for phase in found.phases if not phase.prefetch)
    assert [one.prefetch for one in found.cold] == [True, False] * lab.REPEATS
    by_name = {one.phase: one.work for one in found.phases if one.buffers == 819 and one.prefetch}
    if "insert" in by_name:
        assert by_name["insert"]["records"] == pytest.approx(50_000, rel=0.02)
    if "random" in by_name:
        assert by_name["random"]["far_reads"] > 1000, "more pages than buffers, in no order"
    if "pglz" in by_name:
        assert by_name["pglz"]["images_pglz"] >= 300
    for run in found.checkpoints:
        assert run.written == pytest.approx(run.resident, rel=0.01, abs=20)
    assert found.read_iops is not None
    assert found.read_iops > 0
    coefficients = fit(found)
    assert all(coefficients.cpu_us[term.name] >= 0 for term in TERMS)
    assert sum(coefficients.cpu_us.values()) > 0
    assert not (workspace.folder / "calibration").exists()


def test_too_little_space_is_named(
    embedded: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "NEED_BYTES", 1 << 60)
    with pytest.raises(DiskError, match="too little space") as caught:
        calibrate(embedded, workspace, print)
    assert "got" in str(caught.value.detail)
