"""The example in docs/wal.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.golden.unpack import unpack

PAGE = Path(__file__).parents[2] / "docs" / "wal.md"


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pg_wal").mkdir()
    unpack(18, tmp_path / "pg_wal")
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example is not None
    exec(compile(example[1], str(PAGE), "exec"), {})
    said = capsys.readouterr().out
    assert "full-page images" in said
    assert "image_length" in said
