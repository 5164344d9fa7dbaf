"""Tables of predictions: every figure has its span beside it."""

from __future__ import annotations

from tests.analysis.test_whatif import make
from walproof.report.blocks import Table
from walproof.report.wal.whatif import whatif_view
from walproof.units import format_bytes


def test_other_settings_have_their_span() -> None:
    study = make()
    (section,) = (section for section in whatif_view(study).sections if section.id == "others")
    table = section.blocks[0]
    assert isinstance(table, Table)
    titles = [column.title for column in table.columns if column.terminal]
    rows = {row[0].text: dict(zip(titles, row, strict=True)) for row in table.rows}
    without = study.predictions[study.question.others()[-1]]
    row = rows["full_page_writes = off"]
    assert row["from"].text == format_bytes(without.wal_span.low)
    assert row["to"].text == format_bytes(without.wal_span.high)
    assert row["sure"].text == without.confidence
