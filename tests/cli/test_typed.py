"""Every option is typed by some test."""

from __future__ import annotations

import re
from pathlib import Path

from bench.ship.command_tree import commands

TESTS = Path(__file__).parent.parent
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
UNTYPED = {
    "--psql": "psql needs a terminal",
    "--no-psql": "without a terminal there is none anyway",
    "--install-completion": "typer's own, and it changes what the user's shell reads",
    "--show-completion": "typer's own",
}


def test_every_option_is_typed_by_some_test() -> None:
    """Whatever the command: that it does what it says there is held where the command is."""
    options = {
        name
        for command in commands()
        for option in command.options
        for name in _OPTION.findall(option.written)
    }
    assert {"--mute", "--stream", "--no-stream"} <= options
    files = [path for path in TESTS.rglob("*.py") if path != Path(__file__)]
    typed = {name for path in files for name in _OPTION.findall(path.read_text(encoding="utf-8"))}
    assert options - typed - UNTYPED.keys() == set()
