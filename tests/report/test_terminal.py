"""The terminal form: fits, ends with what to do next, and obeys no control character."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.report.facts import (
    MAKERS,
    Facts,
    durability,
    hostile_facts,
    make_facts,
)
from walproof.report import build_view, print_terminal
from walproof.report.blocks import Column, Section, Table, text_cells
from walproof.report.terminal import print_sections


def printed(facts: object, width: int = 100, color: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=color, color_system="standard" if color else None)
    print_terminal(build_view(facts.run, facts.trials, facts.series), console)  # type: ignore[attr-defined]
    return out.getvalue()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_fits_in_100_columns(make: Callable[[], Facts]) -> None:
    for line in printed(make()).splitlines():
        assert cell_len(line.rstrip()) <= 100, line


def test_ends_with_the_four_parts() -> None:
    text = printed(durability())
    places = [
        text.index(f"\n{title}\n")
        for title in ("What was found", "How sure", "What would make it surer", "Next")
    ]
    assert places == sorted(places)
    assert text.rstrip().splitlines()[-1].strip().startswith("walproof report durability-20261118-0613-4f2a")


def test_numbers_are_whole() -> None:
    """No column of the main table is cut at 100 columns."""
    lines = printed(durability()).splitlines()
    row = next(line for line in lines if line.strip().startswith("synchronous_commit=off  ■"))
    assert row.split()[-1].replace(".", "").isdigit()
    assert "may lose last commits" in row


def test_names_are_not_squeezed_away_by_wide_columns() -> None:
    ratios = tuple(Column(f"ratio of {name}", numeric=True) for name in "abcd")
    names = ("rare checkpoints", "frequent checkpoints")
    rows = tuple(text_cells(("scale 20", name, *("3.70x (3.70 to 3.71)",) * 4)) for name in names)
    table = Table("Which?", (Column("workload"), Column("variant"), *ratios), rows, grouped=True)
    out = io.StringIO()
    print_sections([Section("one", "One", (table,))], Console(file=out, width=100))
    assert all(cell_len(line) <= 100 for line in out.getvalue().splitlines())
    words = out.getvalue().split()
    assert words.count("frequent") == words.count("rare") == 1
    assert words.count("checkpoints") == 2
    assert words.count("variant") == 1


def test_cells_of_factors_are_named_by_their_levels() -> None:
    names = [
        f"max_wal_size={size}, checkpoint_completion_target={share}"
        for size in ("1GB", "2GB")
        for share in "45"
    ]
    table = Table(
        "Which?", (Column("variant"), Column("s", numeric=True)), tuple(text_cells((n, "1")) for n in names)
    )
    out = io.StringIO()
    print_sections([Section("one", "One", (table,))], Console(file=out, width=100))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert ["1GB,", "4", "1"] in lines
    assert ["max_wal_size,"] in lines
    assert ["checkpoint_completion_target", "s"] in lines


def test_control_characters_do_nothing() -> None:
    text = printed(hostile_facts())
    assert "\x1b" not in text
    assert "?[31m" in text


def test_markup_of_rich_in_names_is_plain_text() -> None:
    facts = make_facts(1, title="[bold red]x[/] [/nothing]")
    assert "[bold red]x[/] [/nothing]" in printed(facts)


def test_classes_are_words_not_colours() -> None:
    assert "◆ may corrupt" in printed(durability())
    assert "\x1b[31m◆ may corrupt" in printed(durability(), color=True)
