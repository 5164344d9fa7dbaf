"""synchronous_standby_names is read as src/backend/replication/syncrep_gram.y has it."""

from __future__ import annotations

import pytest

from walproof.settings.synchronous import parse_standbys


@pytest.mark.parametrize(
    ("setting", "count", "names"),
    [
        ("s1", 1, ("s1",)),
        (" s1 , s2 ", 1, ("s1", "s2")),
        ("*", 1, ("*",)),
        ("2 (s1, s2, s3)", 2, ("s1", "s2", "s3")),
        ("FIRST 2 (s1, s2)", 2, ("s1", "s2")),
        ("any 3(s1,*)", 3, ("s1", "*")),
        ('ANY 1 ("any", "a ""b"", (c)")', 1, ("any", 'a "b", (c)')),
        ("2, 3", 1, ("2", "3")),
        ("First 1 (2)", 1, ("2",)),
    ],
)
def test_every_form_of_the_list(setting: str, count: int, names: tuple[str, ...]) -> None:
    standbys = parse_standbys(setting)
    assert standbys is not None
    assert (standbys.count, standbys.names) == (count, names)


@pytest.mark.parametrize("setting", ["", "  "])
def test_an_empty_list_names_nobody(setting: str) -> None:
    assert parse_standbys(setting) is None


@pytest.mark.parametrize(
    ("setting", "is_ours"),
    [
        ("*", True),
        ('"*"', True),
        ("s1, s2", False),
        ("FIRST 1 (s1, *)", True),
        ('ANY 2 (s1, "WalProof")', True),
        ('"s""1", walproof', True),
        ("walproof2", False),
        ('"FIRST"', False),
    ],
)
def test_names_are_compared_without_regard_to_case(setting: str, is_ours: bool) -> None:
    standbys = parse_standbys(setting)
    assert standbys is not None
    assert standbys.match("walproof") is is_ours
