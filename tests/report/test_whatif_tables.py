"""Tables of predictions: every figure has its span beside it."""

from __future__ import annotations

from dataclasses import replace

from tests.analysis.test_whatif import PRESENT, make
from walproof.analysis.whatif import Question, Study
from walproof.report.blocks import Table, TableCell
from walproof.report.wal.whatif import whatif_view
from walproof.units import format_bytes
from walproof.wal.whatif import ImageSample, MethodSample


def _others(study: Study) -> dict[str, dict[str, TableCell]]:
    """Rows of the table of other settings: by setting, then by column."""
    (section,) = (section for section in whatif_view(study).sections if section.id == "others")
    table = section.blocks[0]
    assert isinstance(table, Table)
    titles = [column.title for column in table.columns if column.terminal]
    named = {row[0].text: dict(zip(titles, row, strict=True)) for row in table.rows}
    assert len(named) == len(table.rows)
    return named


def test_other_settings_have_their_span() -> None:
    study = make()
    without = study.predictions[study.question.others()[-1]]
    row = _others(study)["full_page_writes = off"]
    assert row["from"].text == format_bytes(without.wal_span.low)
    assert row["to"].text == format_bytes(without.wal_span.high)
    assert row["sure"].text == without.confidence


def test_other_settings_are_named_by_what_differs() -> None:
    """A server without full-page writes is asked about with them, and none is asked about as it is."""
    rows = _others(make(Question(replace(PRESENT, full_page_writes=False), is_present_known=True)))
    methods = [f"wal_compression = {method}" for method in ("off", "pglz", "lz4", "zstd")]
    assert list(rows) == [*methods, "full_page_writes = on"]
    assert rows["full_page_writes = on"]["change"].text.startswith("+")
    rows = _others(make(Question(replace(PRESENT, wal_compression="lz4"), is_present_known=True)))
    assert list(rows) == [methods[0], methods[1], methods[3], "full_page_writes = off"]


def test_the_time_of_each_method_is_told_beside_that_of_pglz() -> None:
    """Not for an image: the times are of images that are no longer counted, too."""
    methods = {"pglz": MethodSample(40_000, 6_000_000), "lz4": MethodSample(50_000, 1_500_000)}
    study = make()
    study = replace(study, found=replace(study.found, sample=ImageSample(10, 80_000, methods)))
    (section,) = (section for section in whatif_view(study).sections if section.id == "others")
    table = section.blocks[1]
    assert isinstance(table, Table)
    assert [row[-1].text for row in table.rows] == ["1.00", "0.25"]
    assert "per image" not in table.columns[-1].title
    assert table.note is not None
    assert "evenly spaced ones of each relation" in table.note
