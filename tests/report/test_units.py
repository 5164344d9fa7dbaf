"""One name for one unit, in every kind of report."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from tests.golden.unpack import unpack
from tests.report.kinds import every_figure, every_report
from tests.report.test_streaming import streaming_facts
from walproof.report.blocks import Table
from walproof.report.cells import Cells
from walproof.report.markdown import to_markdown
from walproof.report.pair import network_tables
from walproof.wal import stats


def test_units_are_spelled_in_one_way() -> None:
    """A kB is 1024 bytes, as in postgresql.conf: "KiB" beside it would look like another unit."""
    for view in every_report():
        assert re.findall(r"[KMG]iB|µs", to_markdown(view)) == [], view.question


def test_a_network_has_the_unit_of_the_bandwidth_that_was_set() -> None:
    """Of bandwidth = 100MB/s the table said 105 MB/s."""
    run, trials, _ = streaming_facts(50_000.0, 2.4, 0.0)
    seen = {"network_round_trip_ms": 0.5, "network_bytes_per_s": 100 * 2.0**20}
    trials = [replace(trial, metrics={**trial.metrics, **seen}) for trial in trials]
    (table,) = network_tables(Cells(run.plan, trials))
    assert isinstance(table, Table)
    titles = [column.title for column in table.columns]
    assert {row[titles.index("throughput")].text for row in table.rows} == {"100 MB/s"}


def test_what_is_read_aloud_has_no_exponents(tmp_path: Path) -> None:
    unpack(18, tmp_path)
    said = {figure.id: figure.alt for figure in every_figure(stats(tmp_path))}
    assert {name: alt for name, alt in said.items() if re.search(r"\de[+-]\d", alt)} == {}
