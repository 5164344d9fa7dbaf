"""No example teaches to write a password where others see it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "src" / "walproof" / "cli").glob("*.py"),
]
IN_A_URI = re.compile(r"://[^\s/@`:]*:[^\s/@`]+@")
IN_A_PAIR = re.compile(r"\b(?:ssl)?password\s*=\s*[^\s`]", re.IGNORECASE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_password_in_a_connection_string(path: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        assert not IN_A_URI.search(line), f"{path}:{number}"
        assert not IN_A_PAIR.search(line), f"{path}:{number}"


def test_the_search_finds_one() -> None:
    assert IN_A_URI.search("walproof wal map postgresql://me:word@db1/shop")
    assert IN_A_PAIR.search('walproof wal map "host=db1 password=word"')
