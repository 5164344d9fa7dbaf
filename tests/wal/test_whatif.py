"""Simulations of golden WAL: what must hold whatever the WAL, and what cannot be asked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.unpack import unpack
from walproof.errors import WalError
from walproof.units import Lsn
from walproof.wal import stats
from walproof.wal.whatif import (
    COMPRESSIONS,
    Target,
    default_completion_target,
    identify,
    simulate,
    system_identifier,
)

VERSIONS = (13, 14, 15, 16, 17, 18, 19)
NEVER = Target(max_wal_size_mb=None, checkpoint_timeout_s=None)


@pytest.fixture(scope="module")
def wal(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folders = {version: tmp_path_factory.mktemp(f"wal{version}") for version in VERSIONS}
    for version, folder in folders.items():
        unpack(version, folder)
    return folders


@pytest.mark.parametrize("version", VERSIONS)
def test_facts_are_those_of_stats(wal: dict[int, Path], version: int) -> None:
    written, found = stats(wal[version]), simulate(wal[version], targets=[NEVER])
    assert identify(wal[version]) == (version, written.segment_size)
    assert system_identifier(wal[version]) == written.system_identifier
    assert (found.start, found.end, found.version) == (written.start, written.end, version)
    recorded = found.recorded
    assert recorded.records == written.totals.records
    assert recorded.record_bytes == written.totals.combined_bytes
    assert (recorded.images, recorded.image_bytes) == (written.images.count, written.images.bytes)
    assert recorded.hint_images == written.images.hint_count
    assert [checkpoint.redo for checkpoint in recorded.checkpoints] == [
        checkpoint.redo for checkpoint in written.checkpoints
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_target_does_not_depend_on_its_neighbours(wal: dict[int, Path], version: int) -> None:
    targets = [
        replace(NEVER, max_wal_size_mb=size, wal_compression=method, full_page_writes=images)
        for size in (2, 8, None)
        for method in COMPRESSIONS
        for images in (True, False)
    ]
    together = simulate(wal[version], targets=targets)
    for target, outcome in zip(targets, together.outcomes, strict=True):
        assert simulate(wal[version], targets=[target]).outcomes == (outcome,)
        assert outcome.wal_bytes >= outcome.base_bytes
        assert outcome.first_images <= outcome.images


@pytest.mark.parametrize("version", VERSIONS)
def test_a_sample_that_holds_every_page_is_exact(wal: dict[int, Path], version: int) -> None:
    targets = [replace(NEVER, max_wal_size_mb=2), replace(NEVER, max_wal_size_mb=4, hint_records=False)]
    every, sample = (
        simulate(wal[version], targets=targets),
        simulate(wal[version], targets=targets, most_pages=9999),
    )
    assert sample.outcomes == every.outcomes
    assert sample.recorded.held_pages == every.recorded.pages
    assert all(outcome.sample_error_bytes == 0 for outcome in sample.outcomes)


def test_a_timeout_begins_checkpoints(wal: dict[int, Path]) -> None:
    once = replace(NEVER, checkpoint_timeout_s=1)
    found = simulate(wal[18], targets=[NEVER, once])
    assert found.outcomes[0].by_time == 0
    assert found.outcomes[1].by_time >= 1
    assert found.outcomes[1].images > found.outcomes[0].images


def test_a_part_of_the_recording(wal: dict[int, Path]) -> None:
    whole = stats(wal[18])
    middle = Lsn(whole.start + (whole.end - whole.start) // 2)
    found = simulate(wal[18], targets=[NEVER], end=middle)
    assert found.end <= middle
    assert found.recorded.records < whole.totals.records


def test_what_cannot_be_simulated(wal: dict[int, Path], tmp_path: Path) -> None:
    for wrong in ({"max_wal_size_mb": 0}, {"phase": 1.5}, {"checkpoint_completion_target": -1.0}):
        with pytest.raises(WalError, match="is out of range"):
            Target(**wrong)
    with pytest.raises(WalError, match="no such compression"):
        Target(wal_compression="zip")  # type: ignore[arg-type]
    with pytest.raises(WalError, match="a sample of 10 pages says too little"):
        simulate(tmp_path, targets=[NEVER], most_pages=10)
    with pytest.raises(WalError, match="could not find any WAL file"):
        simulate(tmp_path, targets=[NEVER])


def test_checkpoint_segments_are_the_server_s() -> None:
    # CalculateCheckpointSegments: 1 GB in segments of 16 MB, by default before 14 and since.
    for version, expected in ((13, 42), (14, 33), (18, 33)):
        target = Target(checkpoint_completion_target=default_completion_target(version))
        assert target.checkpoint_segments(16 << 20) == expected


def test_the_example_in_the_docs_runs(
    wal: dict[int, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pg_wal").symlink_to(wal[18])
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "what-if.md"
    example = re.search(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert example is not None
    exec(compile(example[1], str(page), "exec"), {})
    assert capsys.readouterr().out.startswith("1024 ")
