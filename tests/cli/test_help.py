"""What ``--help`` says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from walproof.cli.app import app
from walproof.cli.load_advice import _ROUNDS_MOST, _WITHIN
from walproof.facts import Design
from walproof.lab.designs import _PASSES, DEFAULT_SLICED_STARTS, DEFAULT_STARTS
from walproof.lab.study import _DEFAULT_ROUNDS

_COLUMNS = 80
_BETWEEN = 6
"""Columns of a list of commands that are neither a name nor its line (click.formatting)."""


def _lines(group: Any, path: str) -> Iterator[tuple[str, str]]:
    names = group.list_commands(None)
    room = _COLUMNS - _BETWEEN - max(map(len, names))
    for name in names:
        command = group.get_command(None, name)
        yield f"{path} {name}", command.get_short_help_str(room)
        if hasattr(command, "list_commands"):
            yield from _lines(command, f"{path} {name}")


def test_every_command_has_a_line_that_is_whole_in_80_columns() -> None:
    lines = dict(_lines(get_command(app), "walproof"))
    assert "walproof wal verify" in lines
    assert {name: line for name, line in lines.items() if not line or line.endswith("...")} == {}


def test_the_list_has_the_line_of_every_command() -> None:
    """It is made without the commands themselves, whose options take their time."""
    said = CliRunner().invoke(app, ["--help"], terminal_width=_COLUMNS).output
    names = get_command(app).list_commands(None)  # type: ignore[attr-defined]
    lines = dict(_lines(get_command(app), "walproof"))
    for name in names:
        assert re.search(rf"^  {name} +{re.escape(lines[f'walproof {name}'])}$", said, re.MULTILINE), name


def test_only_a_case_that_is_run_again_asks_for_the_same_version() -> None:
    """One text of an option stood for every command that has it."""

    def of_pg(*command: str) -> str:
        told = CliRunner().invoke(app, [*command, "--help"], terminal_width=_COLUMNS).output
        return " ".join(told.split()).partition("--pg")[2].partition(" --")[0]

    assert "of the same version as then" in of_pg("power-cut", "replay")
    for command in ("tune", "advise"):
        assert "PostgreSQL to run: a folder" in of_pg(command)
    assert "Default: the load's" in of_pg("tune")


def test_a_value_in_a_help_of_watch_is_a_default_or_an_example() -> None:
    """The most of a stream "to read per second: 20MB" was read as a limit that there is."""
    watch = get_command(app).get_command(None, "watch")  # type: ignore[attr-defined]
    helps = {parameter.name: parameter.help for parameter in watch.params if getattr(parameter, "help", None)}
    assert "such as 20MB. Default: no limit." in helps["max_rate"]
    for name, said in helps.items():
        assert re.search(r"(?<!Default): [\d.:]+\w*\.$", said) is None, name


def test_options_of_a_study_say_what_holds_without_them() -> None:
    """An example where others have the default read like one."""
    asked = {"--rounds", "--passes", "--settle", "--within", "--warmup", "--seed"}
    group: Any = get_command(app)
    told: dict[str, dict[str, str]] = {
        name: {
            option.opts[0]: option.help
            for option in group.get_command(None, name).params
            if option.opts[0].startswith("--")
        }
        for name in ("run", "compare", "load-advice")
    }
    for name, helps in told.items():
        assert {"--rounds", "--within", "--seed"} <= set(helps)
        assert [option for option in asked & set(helps) if "Default: " not in helps[option]] == [], name
        assert "within this time, such as 30min." in helps["--budget"]
    run, loading = told["run"], told["load-advice"]
    assert f"or {_DEFAULT_ROUNDS}; more with" in run["--rounds"]
    assert f"in slices {DEFAULT_STARTS}, or {DEFAULT_SLICED_STARTS} where" in run["--rounds"]
    assert f"or {_PASSES[Design.TOGGLED]} toggled and {_PASSES[Design.SLICED]} sliced." in run["--passes"]
    assert f"Default: {_ROUNDS_MOST};" in loading["--rounds"]
    assert f"Default: {_WITHIN:.0%};" in loading["--within"]
