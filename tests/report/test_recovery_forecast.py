"""What is said of predicted recoveries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.unpack import unpack
from walproof.analysis.forecast import Forecast, forecast
from walproof.report.blocks import Paragraph, Table
from walproof.report.wal.recovery_forecast import recovery_view
from walproof.wal import stats


def told(found: Forecast) -> str:
    blocks = [block for section in recovery_view(found).sections for block in section.blocks]
    return " ".join(block.text for block in blocks if isinstance(block, Paragraph))


def of_golden(version: int, folder: Path) -> Forecast:
    unpack(version, folder)
    return forecast(folder, start=stats(folder).start)


def test_memory_of_the_host_is_told_in_seconds(tmp_path: Path) -> None:
    found = of_golden(15, tmp_path)
    slow = [
        replace(prediction, coefficients=replace(prediction.coefficients, host_us=1000.0))
        for prediction in found.predictions
    ]
    text = told(replace(found, predictions=tuple(slow)))
    assert "taken back unused memory, " in text
    assert "{" not in text


@pytest.mark.parametrize("version", [14, 15])
def test_versions_without_the_prefetcher_have_no_times_of_it(version: int, tmp_path: Path) -> None:
    table = recovery_view(of_golden(version, tmp_path)).sections[0].blocks[0]
    assert isinstance(table, Table)
    assert ("no prefetch" in [column.title for column in table.columns]) == (version >= 15)
    assert ("recovery_prefetch" in (table.note or "")) == (version >= 15)
    assert {len(row) for row in table.rows} == {len(table.columns)}
