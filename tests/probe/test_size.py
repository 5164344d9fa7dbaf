"""Sizes of folders in which somebody works."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from walproof.probe.size import folder_bytes


def test_what_vanishes_counts_as_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server renames and removes files between the look at a folder and the look at its files."""
    (tmp_path / "summaries").mkdir()
    for name in ("kept", "summaries/kept", "summaries/temp.summary"):
        (tmp_path / name).write_bytes(b"12345")
    listed = os.scandir

    @contextmanager
    def scandir(folder: str) -> Iterator[list[os.DirEntry[str]]]:
        with listed(folder) as entries:
            found = list(entries)
        (tmp_path / "summaries" / "temp.summary").unlink(missing_ok=True)
        yield found

    monkeypatch.setattr(os, "scandir", scandir)
    assert folder_bytes(tmp_path / "absent") == 0
    assert folder_bytes(tmp_path) == 10
