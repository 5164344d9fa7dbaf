"""The documents have none of the wordings that were once mended; ``make lint`` asks the same."""

from __future__ import annotations

import pytest

from bench.ship.prose import RULES, complaints, pages


def test_documents_have_none() -> None:
    found = [
        f'{name}:{line}: "{words}": {instead}'
        for name, text in pages()
        for line, words, instead in complaints(text)
    ]
    assert found == []


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
