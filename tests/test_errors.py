"""Errors cross process borders and keep their three parts."""

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
