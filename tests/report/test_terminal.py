"""The terminal form: fits, ends with what to do next, and obeys no control character."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.report.facts import (
    MAKERS,
    NONE,
    Facts,
    durability,
    hostile_facts,
    make_facts,
)
from walproof.analysis.interval import Interval
from walproof.cli.options import result_console
from walproof.report.blocks import Column, Section, Table, text_cells
from walproof.report.dotplot import dot_plot
from walproof.report.figures.ratios import RatioData, RatioPanel, RatioPoint, RatioRow
from walproof.report.figures.style import SYMBOLS
from walproof.report.plaintext import shortened
from walproof.report.terminal import print_sections, print_terminal
from walproof.report.variants import VARIANT
from walproof.report.view import build_view


def printed(facts: object, width: int = 100, color: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=color, color_system="standard" if color else None)
    print_terminal(build_view(facts.run, facts.trials, facts.series), console)  # type: ignore[attr-defined]
    return out.getvalue()


_LONG = "shared_buffers=512MB, synchronous_commit=off"
WIDTHS = (40, 60, 80, 100, 120)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_lines_fit(make: Callable[[], Facts], width: int) -> None:
    text, found, commands = printed(make(), width).partition("\nNext\n")
    assert found
    for line in text.splitlines():
        assert cell_len(line) <= width, line
    # They are to be copied: the terminal breaks them.
    assert all(line.startswith("  walproof ") for line in commands.splitlines() if line), commands


def _ratios(label: str, text: str) -> RatioData:
    row = RatioRow(label, NONE, 1.5, Interval(1.2, 1.9, 0.95, "t"), (), text)
    return RatioData("x", (RatioPanel("a panel", (row,)),), 0.5, 4.0, (0.5, 1.0, 2.0))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("label", ["fsync=off", _LONG, "数据库" * 12])
@pytest.mark.parametrize("text", ["1.08x", "0.0123x (0.0110 to 0.0145), n = 100", "no finished pair"])
def test_the_plot_shrinks_before_labels_and_figures_never_do(label: str, text: str, width: int) -> None:
    data = _ratios(label, text)
    plot_of, _, key = dot_plot(data, width).partition("\n\n")
    lines = plot_of.splitlines()
    assert all(cell_len(line) <= width for line in (*lines, *key.splitlines()))
    row = next(line for line in lines if line.endswith(text))
    plot, figures = cell_len(lines[-2].strip()), max(6, len(text))  # a tick's label has six characters
    if row.strip() == text:  # Label, plot and figures have lines of their own.
        assert width < 4 + 12 + width // 5 + figures
        assert "".join(label.split()) in "".join("".join(lines).split())
    elif "…" in row:
        assert plot == width // 5
    else:
        assert label in row
        assert plot == min(40, width - 4 - figures - cell_len(label))


def test_marks_of_a_plot_are_explained_and_none_is_that_of_a_class() -> None:
    """A diamond in each row was the mean, and in the line above them "may corrupt"."""
    points = (RatioPoint(1, 2, 1.4, outlier=False), RatioPoint(2, 4, 1.9, outlier=True))
    bare = _ratios("fsync=off", "1.50x")
    assert dot_plot(bare).endswith("\n\n× estimate  ─ interval  │ 1x")
    (row,) = bare.panels[0].rows
    drawn = replace(bare, panels=(RatioPanel("a panel", (replace(row, points=points),)),), single="start")
    plot, _, key = dot_plot(drawn).partition("\n\n")
    assert key == "· a start  ○ a start that stands apart  × geometric mean  ─ interval  │ 1x"
    (line,) = (line for line in plot.splitlines() if "fsync=off" in line)
    assert {"·", "○", "×", "─", "│"} <= set(line)
    assert not set(line) & set(SYMBOLS.values())
    narrow = dot_plot(drawn, 40).partition("\n\n")[2].splitlines()
    assert narrow == ["· a start  ○ a start that stands apart", "× geometric mean  ─ interval  │ 1x"]


def test_a_long_label_loses_its_middle() -> None:
    assert shortened("shared_buffers=512MB", 20) == "shared_buffers=512MB"
    assert shortened("shared_buffers=512MB", 11) == "share…512MB"
    assert shortened("数据库数据库", 8) == "数据…库"
    assert shortened("abc", 0) == "…"


def test_a_wide_terminal_keeps_long_labels_whole() -> None:
    assert f"  {_LONG} " in dot_plot(_ratios(_LONG, "1.08x (0.62 to 1.87), n = 5"), 120)


def test_columns_that_have_no_room_stand_below_with_the_names() -> None:
    bytes_of = tuple(Column(f"bytes of {name}", numeric=True) for name in "abc")
    rows = tuple(text_cells(("scale 20", name, *("123,456,789,012",) * 3)) for name in ("one", "two"))
    table = Table("Which?", (Column("workload"), VARIANT, *bytes_of), rows, "A note.")
    out = io.StringIO()
    print_sections([Section("one", "One", (table,))], Console(file=out, width=46))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines.count(["scale", "20", "one", "123,456,789,012"]) == 3
    assert [line for line in lines if "variant" in line] == [
        ["workload", "variant", "bytes", "of", name] for name in "abc"
    ]
    assert out.getvalue().count("Which?") == out.getvalue().count("A note.") == 1


def test_without_a_terminal_a_result_has_100_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", "60")
    assert result_console().width == 100


def test_brackets_of_a_path_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    result_console().print("out[/x].html")
    assert out.getvalue() == "out[/x].html\n"


_SHOW = """
from tests.report.facts import durability
from walproof.cli.options import result_console
from walproof.report.view import build_view
from walproof.report.terminal import print_terminal
facts = durability()
print_terminal(build_view(facts.run, facts.trials, facts.series), result_console())
"""


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_is_filled_and_no_more(columns: int) -> None:
    """A pseudo-terminal of that size; what styles the text is taken out before lines are measured."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", in_terminal(_SHOW, columns))
    lines = text.partition("\nNext")[0].splitlines()
    assert max(map(cell_len, lines)) <= columns
    assert max(map(cell_len, lines)) > columns - 5
    for ratio in ("5.9x (5.8 to 5.9), n = 5", "0.94x (0.79 to 1.12), n = 5"):
        assert any(line.endswith(ratio) for line in lines)


def in_terminal(script: str, columns: int) -> str:
    """What Python prints of the script in a terminal with so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=slave, stdout=slave, stderr=slave,
        env={**environment, "TERM": "xterm", "NO_COLOR": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    os.close(slave)
    said = b""
    # Linux ends the reading with an error when the last writer has closed its side.
    with contextlib.suppress(OSError):
        while part := os.read(master, 65536):
            said += part
    os.close(master)
    assert process.wait(timeout=60) == 0, said.decode()
    return said.decode().replace("\r\n", "\n")


def test_begins_with_the_answer_and_ends_with_the_answer_and_the_next_step() -> None:
    text = printed(durability())
    _, first, _ = text.split("\n\n", maxsplit=2)  # after the question, and when, on what, which run
    assert first.startswith(
        "What was found\n  scale 1: No variant that is as safe as default is measurably faster; at most "
    )
    places = [
        text.rindex(f"\n{title}\n")
        for title in ("How sure", "What would make it surer", "What was found", "Next")
    ]
    assert places == sorted(places)
    assert text.count("\nWhat was found\n") == 2
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
