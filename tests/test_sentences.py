"""Counts and lists in sentences."""

from __future__ import annotations

from walproof.sentences import say_count, say_list


def test_list() -> None:
    said = [say_list(list(text)) for text in ("", "a", "ab", "abc")]
    assert said == ["", "a", "a and b", "a, b and c"]


def test_counts_have_their_noun() -> None:
    assert [say_count(count, "slot") for count in (0, 1, 2, 1200.0)] == [
        "0 slots", "1 slot", "2 slots", "1,200 slots",
    ]  # fmt: skip
