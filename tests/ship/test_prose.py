"""Documents, docstrings and comments have none of the wordings that were once mended: ``make lint`` looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.ship.prose import RULES, complaints, words_of_python, words_of_rust


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Records at or\nbehind it.", "at or behind"),
        ("It took 5 s besides.", "besides."),
        ("the the table", "the the"),
        ("We leverage it.", "leverage"),
        ("One's own server", "One's own"),
    ],
)
def test_a_wording_is_found(text: str, words: str) -> None:
    assert [found for _, found, _ in complaints(text)] == [words]


def test_docstrings_and_comments_are_read_on_their_lines() -> None:
    this = words_of_python(Path(__file__).read_text(encoding="utf-8")).splitlines()
    assert this[0].startswith("Documents, docstrings and comments")
    assert "at or behind" not in "\n".join(this)  # the string of an example is no comment
    assert this.index("the string of an example is no comment") > 0
    assert words_of_rust("/// Says what.\nlet x = 1;\n    // Why.\n") == "Says what.\n\nWhy."


def test_code_and_plain_sentences_are_left_alone() -> None:
    assert (
        list(
            complaints(
                "`at or behind`\n```\nbesides.\n```\nIt goes on after the gap, and has a server of its own."
            )
        )
        == []
    )
    assert all(instead for _, instead in RULES)
