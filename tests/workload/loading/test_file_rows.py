"""Rows of a file, counted as COPY counts them."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import pytest

from walproof.errors import WorkloadError
from walproof.workload.loading.file_rows import rows_in

_MIB = 1 << 20


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b"a,b\n1,2\n3,4\n", 2),
        (b"a,b\n1,2\n3,4", 2),
        (b"a,b\r\n1,2\r\n3,4\r\n", 2),
        (b"a,b\r1,2\r3,4", 2),
        (b'a,b\n1,"two\nlines"\n3,"with ""quotes""\n, and more"\n', 2),
        (b'"a\nb",c\n1,2\n', 1),
        (b'a\n"\r\n"\n""\n', 2),
        # Quotes and line ends at the border of what is read at once.
        (b"a\n" + b'"' + b"x" * (_MIB - 4) + b'"' + b'"\n"\n2\n', 2),
        (b"a\n" + b"x" * (_MIB - 3) + b'\n"\n"\n', 2),
    ],
)
def test_records_are_counted(tmp_path: Path, text: bytes, rows: int) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(text)
    assert rows_in(file) == rows


def test_a_file_that_changes_is_counted_again(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    for rows in (1, 2, 3):
        file.write_text("a\n" + "1\n" * rows)
        assert rows_in(file) == rows


@pytest.mark.parametrize("text", ["", "a,b", "a,b\n"])
def test_a_file_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(text)
    with pytest.raises(WorkloadError, match="has no rows"):
        rows_in(file)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="could not read file"):
        rows_in(tmp_path / "absent.csv")


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed")
def test_rows_of_a_parquet_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    arrow = importlib.import_module("pyarrow")
    importlib.import_module("pyarrow.parquet").write_table(arrow.table({"a": ["1", None, "2"]}), file)
    assert rows_in(file) == 3


def test_without_pyarrow_it_is_said_what_brings_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.parquet"
    file.touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(WorkloadError, match="needs pyarrow") as caught:
        rows_in(file)
    # An extra of walproof is on no index.
    assert "pip install pyarrow," in (caught.value.hint or "")
