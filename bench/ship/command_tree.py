"""Every command of walproof with its words, options and help, in the order of ``--help``.

The man page and the reference of commands are made from this, so that they say what the program says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from typer.main import get_command

from walproof.cli.app import app


@dataclass(frozen=True, slots=True)
class Entry:
    """An argument or an option: how it is written, and what it means."""

    written: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command as its ``--help`` shows it."""

    words: tuple[str, ...]
    """``("walproof", "wal", "stats")``."""
    usage: str
    """What follows the words."""
    summary: str
    """The first sentence of the help."""
    details: tuple[str, ...]
    """Paragraphs that follow it."""
    arguments: tuple[Entry, ...]
    options: tuple[Entry, ...]
    is_group: bool

    @property
    def name(self) -> str:
        """``walproof wal stats``."""
        return " ".join(self.words)


def commands() -> list[Command]:
    """Yield every command: the program itself first, each group before its commands."""
    return list(_walk(get_command(app), ("walproof",), None))


def _walk(command: Any, words: tuple[str, ...], parent: Any) -> Iterator[Command]:
    context = command.context_class(command, info_name=words[-1], parent=parent, **command.context_settings)
    records: dict[str, list[Entry]] = {"argument": [], "option": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            records[parameter.param_type_name].append(Entry(*record))
    paragraphs = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    names = command.list_commands(context) if hasattr(command, "list_commands") else []
    taken = (
        ["COMMAND [ARGS]..."] if names else [entry.written.split(" <")[0] for entry in records["argument"]]
    )
    yield Command(
        words=words,
        usage=" ".join(["[OPTIONS]", *taken]),
        summary=paragraphs[0],
        details=tuple(paragraphs[1:]),
        arguments=tuple(records["argument"]),
        options=tuple(records["option"]),
        is_group=bool(names),
    )
    for name in names:
        yield from _walk(command.get_command(context, name), (*words, name), context)
