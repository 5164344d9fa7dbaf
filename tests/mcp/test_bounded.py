"""An answer is bounded whatever it is, and nothing of it is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mcp.asking import asked, in_process, told, whole, with_more
from walproof.errors import SettingError
from walproof.mcp.bounded import MOST_BYTES, bounded, found_at, size
from walproof.mcp.kept import Kept
from walproof.mcp.tool import Nothing, Tool, ToolAnswer

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=900),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=8), inner, max_size=8),
    max_leaves=40,
)


def _parts(value: Any, most: int) -> Any:
    """The value from its parts."""
    result, cuts = bounded(value, most)
    assert size(result) <= most
    left = list(cuts)
    while left:
        cut = left.pop(0)
        assert cut.first < cut.of
        rest, further = bounded(found_at(value, cut.at), most, cut.at, cut.first)
        assert size(rest) <= most
        result = with_more(result, cut.at.split("/")[1:], rest)
        left += further
    return result


@settings(max_examples=60, deadline=None)
@given(_VALUES)
def test_parts_are_bounded_and_make_the_whole(value: Any) -> None:
    # Escapes of one character may take six bytes, so a text that is not cut needs some room.
    assert _parts(value, 20_000) == value
    few = {"rows": [value] * 6, "text": "line\n" * 400}
    assert _parts(few, 24_000) == few


def test_the_largest_list_is_cut_and_the_rest_stays() -> None:
    value = {
        "totals": {"records": 5},
        "rows": [{"n": i, "pad": "x" * 50} for i in range(5000)],
        "notes": ["a"],
    }
    shown, (cut,) = bounded(value)
    assert shown["totals"] == value["totals"]
    assert shown["notes"] == ["a"]
    assert (cut.at, cut.of) == ("/rows", 5000)
    assert cut.first == len(shown["rows"])
    assert MOST_BYTES / 2 < size(shown) <= MOST_BYTES


def test_a_text_is_cut_at_the_end_of_a_line() -> None:
    text = "".join(f"line {i}\n" for i in range(20_000))
    shown, (cut,) = bounded(text)
    assert shown.endswith("\n")
    assert text.startswith(shown)
    assert cut.first == len(shown)


def test_places_that_are_none() -> None:
    for pointer in ("/a/9", "/a/x", "/b", "a", "/a/0/0/0"):
        with pytest.raises(SettingError):
            found_at({"a": [1, [2]]}, pointer)
    assert found_at({"a/b": {"~": 3}}, "/a~1b/~0") == 3


def test_the_oldest_answers_are_let_go() -> None:
    kept = Kept()
    names = [kept.keep([i]) for i in range(20)]
    assert kept.get(str(names[-1])) == [19]
    with pytest.raises(SettingError, match="is not kept"):
        kept.get(str(names[0]))
    with pytest.raises(SettingError, match="is not kept"):
        kept.get("answer-999")


def test_a_client_gets_the_whole_in_parts() -> None:
    rows = [{"at": i, "relation": f"public.t{i}", "text": "z" * 300} for i in range(600)]
    tool = Tool("rows", "Rows", "Rows.", Nothing, lambda _asked, _call: ToolAnswer({"rows": rows}))

    async def ask(client: Any) -> None:
        first = told(await client.call_tool("rows", {}))
        assert len(first["result"]["rows"]) < 600
        found = await whole(client, first)
        assert [row["relation"] for row in found["rows"]] == [row["relation"] for row in rows]
        # Seconds of 1970, as a date.
        assert found["rows"][7]["at"] == "1970-01-01T00:00:07+00:00"

    asked(lambda: in_process(tool), ask)
