"""TOML files: one set of words for the mistakes of all of them, and no secret among these."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from walproof.errors import SettingError
from walproof.tomlfile import complaint, read_toml, seconds_of, told


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")

    needed: str
    count: int = 1
    names: Annotated[tuple[str, ...], Field(min_length=1)] = ("a",)
    every: Annotated[float, BeforeValidator(seconds_of)] = 1.0


def _said(**typed: object) -> list[str]:
    """Every complaint of such a table."""
    with pytest.raises(ValidationError) as caught:
        _Table.model_validate({"needed": "x", **typed})
    return [complaint(dict(problem), ("names",)) for problem in caught.value.errors()]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("needed", 5, "should be a text, in quotes, got 5"),
        ("other", 5, "no such key"),
        ("names", "hunter2", "should be a list"),
        ("names", [], "expected at least 1"),
        ("every", "2 parsecs", "invalid duration"),
        ("every", [], 'expected a duration such as "10s" or "2min"'),
        ("every", -1, "a duration cannot be negative, got -1"),
    ],
)
def test_a_complaint_is_in_words_of_the_file(key: str, value: object, said: str) -> None:
    """The value is repeated, unless it may be a secret: that of ``names`` here."""
    (found,) = _said(**{key: value})
    assert found.startswith(said)
    if key == "names":
        assert found == said


def test_a_list_whose_item_is_wrong_is_too_short_as_well() -> None:
    """pydantic counts the items that are right; the first complaint names the item."""
    assert _said(names=[5]) == ["should be a text, in quotes", "expected at least 1"]


def test_a_key_that_is_needed_is_missed() -> None:
    with pytest.raises(ValidationError) as caught:
        _Table.model_validate({})
    assert [complaint(dict(problem)) for problem in caught.value.errors()] == ["this key is missing"]


def test_a_list_is_shown_how_to_be_written() -> None:
    with pytest.raises(ValidationError) as caught:
        _Table.model_validate({"needed": "x", "names": "b"})
    (said,) = [complaint(dict(problem)) for problem in caught.value.errors()]
    assert said == "should be a list, such as [\"b\"], got 'b'"


def test_mistakes_are_told_in_the_order_of_their_lines() -> None:
    text = "a = 1\n[[table]]\nkey = 1\n[[table]]\nkey = 2\n"
    said = told(
        "f.toml", text, [(("table", 1, "key"), "two"), (("a",), "one"), ((), "all"), (("b",), "none")]
    )
    assert said.splitlines() == [
        "f.toml: the file: all", "f.toml: b: none", "f.toml:1: a: one", "f.toml:5: table[2].key: two",
    ]  # fmt: skip


def test_a_duration_may_have_to_be_above_zero() -> None:
    assert (seconds_of("2min"), seconds_of(0), seconds_of(1.5, above_zero=True)) == (120.0, 0.0, 1.5)
    with pytest.raises(ValueError, match="above zero"):
        seconds_of("0s", above_zero=True)


def test_a_file_that_cannot_be_read_is_called_as_told(tmp_path: Path) -> None:
    path = tmp_path / "f.toml"
    with pytest.raises(SettingError, match="could not read the file") as caught:
        read_toml(path, "the file", SettingError, hint="Make one.")
    assert (caught.value.detail, caught.value.hint) == ("No such file or directory", "Make one.")
    path.write_bytes(b"\xff")
    with pytest.raises(SettingError, match="could not read the file"):
        read_toml(path, "the file", SettingError)
    path.write_text("a = \n")
    with pytest.raises(SettingError, match="the file is not valid TOML") as caught:
        read_toml(path, "the file", SettingError)
    assert "line 1" in str(caught.value.detail)
    path.write_text("a = 1\n")
    assert read_toml(path, "the file", SettingError) == ("a = 1\n", {"a": 1})
