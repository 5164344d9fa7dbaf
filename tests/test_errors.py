"""Errors cross process borders and keep their three parts; those of other libraries are told in one line."""

from __future__ import annotations

import pickle

import pytest

from walproof import errors


@pytest.mark.parametrize("cls", [errors.WalproofError, *errors.WalproofError.__subclasses__()])
def test_errors_survive_pickling(cls: type[errors.WalproofError]) -> None:
    copy = pickle.loads(pickle.dumps(cls("message", detail="where, expected, got", hint="advice")))
    assert type(copy) is cls
    assert (str(copy), copy.detail, copy.hint) == ("message", "where, expected, got", "advice")


def test_the_tree_in_the_docstring_is_complete() -> None:
    for cls in errors.WalproofError.__subclasses__():
        assert f"+- {cls.__name__}" in str(errors.__doc__)


@pytest.mark.parametrize(
    ("said", "whole", "first"),
    [
        ("no", "no", "no"),
        (
            'syntax error at or near "TABEL"\nLINE 1: CREATE TABEL t\n               ^\n',
            'syntax error at or near "TABEL" LINE 1: CREATE TABEL t ^',
            'syntax error at or near "TABEL"',
        ),
        ("\n  late\nrest", "late rest", "late"),
        ("connection is bad: no route\n\tto it", "no route to it", "connection is bad: no route"),
        ("", "ValueError", "ValueError"),
        (" \n", "ValueError", "ValueError"),
    ],
)
def test_what_another_library_says_is_one_line(said: str, whole: str, first: str) -> None:
    """An empty text has no first line, which was a failure of walproof itself."""
    assert errors.one_line(ValueError(said)) == whole
    assert errors.first_line(ValueError(said)) == first
