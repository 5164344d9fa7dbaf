"""Counts, shares and lists in sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from walproof.sentences import say_count, say_list, say_percent

SOURCE = Path(__file__).parent.parent / "src" / "walproof"
NOUNS = ("clients", "threads", "files", "errors", "marks")
"""What there is often one of. Numbers with names in capitals are no counts: they are larger than one."""
TYPED = {"lab/study.py", "lab/kinds/streaming/study.py"}
"""Their hints show shares as they are typed: ``3%``."""


def test_list() -> None:
    said = [say_list(list(text)) for text in ("", "a", "ab", "abc")]
    assert said == ["", "a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.83, "83 %"), (0.0421, "4.2 %"), (0.0003, "< 0.1 %"), (0.0, "0 %"), (1.0, "100 %"), (0.099, "9.9 %")],
)
def test_percent(share: float, text: str) -> None:
    assert say_percent(share) == text


def test_counts_have_their_noun() -> None:
    assert [say_count(count, "slot") for count in (0, 1, 2, 1200.0)] == [
        "0 slots", "1 slot", "2 slots", "1,200 slots",
    ]  # fmt: skip


def test_a_noun_that_may_be_one_is_said_by_that_function() -> None:
    """Where one of them is usual, "1 threads" was said."""
    by_hand = re.compile(rf"\{{(?![A-Z_]+\}})[^{{}}]*\}} ({'|'.join(NOUNS)})\b")
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {match[0]}"
        for path in sorted(SOURCE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := by_hand.search(line)) is not None
    ]
    assert found == []
    assert by_hand.search('f"{count} threads"') is not None
    assert by_hand.search('f"{_FILES_MOST} files"') is None


def test_a_share_is_said_by_that_function() -> None:
    """``83%`` stood beside ``83 %``."""
    by_hand = re.compile(r"\.\d%\}")
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if by_hand.search(path.read_text(encoding="utf-8"))
    }
    assert found == TYPED
