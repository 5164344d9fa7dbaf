"""Tables of WAL as CSV: what a spreadsheet would run is text, and numbers are numbers."""

from __future__ import annotations

import csv
import io

import pytest

from walproof.report.wal.rows import csv_text

PAYLOADS = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_name_is_no_formula(payload: str) -> None:
    text = csv_text([{"relation": payload, "records": 3}])
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row == {"relation": f"'{payload}", "records": "3"}


def test_numbers_and_other_names_stay_as_they_are() -> None:
    text = csv_text([{"relation": "shop.a=b, -c", "records": -3, "fork": None}])
    assert text == 'relation,records,fork\n"shop.a=b, -c",-3,\n'
