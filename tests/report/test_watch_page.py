"""The page of ``watch`` in terminals that have too few lines for all of it."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

import pytest
from rich.console import Console

from tests.report.test_watch import CALM, GONE, TROUBLED, page
from walproof.cli.watch_show import shower
from walproof.report.watch.page import fitting_page
from walproof.report.watch.panels import panels
from walproof.report.watch.view import ServerView


def lines(views: Sequence[ServerView], height: int, width: int = 80) -> list[str]:
    text = StringIO()
    console = Console(file=text, width=width, height=height, no_color=True, force_terminal=False)
    console.print(fitting_page(views, console))
    return text.getvalue().splitlines()


def test_servers_that_do_not_fit_stand_with_the_worst_first_and_no_concern_is_cut() -> None:
    """A healthy server stood above one in trouble, whose concerns were below the last line."""
    told = lines([CALM, CALM, TROUBLED], 24)
    assert len(told) < 24
    assert told[0].startswith("✖ db1")
    words = " ".join(" ".join(told).split())
    for concern in TROUBLED.concerns:
        assert concern.sentence in words
    assert "archiver fails" in words
    assert words.count("● db1") == 2
    assert told[-1] == "--plain has all"


def test_figures_stand_where_there_is_room_for_them() -> None:
    told = lines([CALM], 9)
    assert len(told) < 9
    assert "if it crashed now" in told[1]
    assert told[-1] == "--plain has all"
    assert "--plain" not in " ".join(lines([CALM], 60))


def test_of_servers_without_a_line_it_says_how_many_they_are() -> None:
    told = lines([CALM] * 10 + [TROUBLED] * 10, 11)
    assert len(told) < 11
    assert max(map(len, told)) <= 80
    assert all(line.startswith("✖ db1  ") for line in told[:-1])
    assert f"{len(TROUBLED.concerns)} concerns: " in told[0]
    assert told[-1] == "11 more servers, 1 of them with concerns: --plain has all"


def test_a_server_that_does_not_answer_has_its_reason_in_one_line() -> None:
    told = lines([GONE, CALM, CALM], 7, width=100)
    assert "does not answer since" in " ".join(told)
    assert "connection refused" in " ".join(told)


def test_figures_about_which_there_is_a_concern_have_a_mark_beside_the_colour() -> None:
    """In a terminal without colours nothing else tells them from the others."""
    begins = [line.split()[:2] for line in page([TROUBLED], 100).splitlines()]
    assert ["▲", "archive"] in begins
    assert ["▲", "pg_wal"] in begins
    assert ["▲", "next"] not in begins
    assert "▲" not in page([CALM], 100)


def test_labels_of_figures_begin_in_one_column_where_some_have_a_mark() -> None:
    told = page([TROUBLED], 120).splitlines()
    labels = [panel.label for panel in panels(TROUBLED)]
    figures = [
        next(line for line in told if line.removeprefix("  ▲").lstrip().startswith(label)) for label in labels
    ]
    assert any("▲" in line for line in figures)
    assert any("▲" not in line for line in figures)
    assert {line.index(label) for line, label in zip(figures, labels, strict=True)} == {4}


def test_what_stays_on_a_low_terminal_at_the_end_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after --once: the page may be scrolled then."""
    text = StringIO()
    monkeypatch.setenv("TERM", "xterm")
    console = Console(file=text, width=80, height=9, no_color=True, force_terminal=True)
    monkeypatch.setattr("walproof.cli.options.result_console", lambda: console)
    with shower(plain=False, json=False) as show:
        show([CALM, TROUBLED])
    _, low, whole = text.getvalue().rpartition("--plain has all")
    assert low
    assert whole.count("next checkpoint") == 2
    assert "archiver fails" in whole
