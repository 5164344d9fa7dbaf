"""The list of subcommands: the one that is asked for is imported, and imports what it needs when it runs."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

_UsageError: Any = typer.BadParameter.__base__
"""typer does not name the class of all complaints about a command line."""

SUBCOMMANDS = (
    "advise",
    "watch",
    "tune",
    "web",
    "mcp",
    "run",
    "compare",
    "workload",
    "load-advice",
    "studies",
    "runs",
    "show",
    "report",
    "store",
    "disk",
    "pg",
    "power-cut",
    "replica",
    "wal",
    "recovery",
)
"""In the order of ``--help``. Each is a file of this package, which holds a group named ``app`` or a function
named as the file."""


class _Subcommands(TyperGroup):
    """Imports the file of a subcommand when it is asked for (Click's documentation calls it a lazy group).

    Reading the options of all of them would take ``wal stats`` a tenth of its time.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # A wrong name is answered with similar ones, out of all that are in self.commands.
        for name in [cmd_name] if cmd_name in SUBCOMMANDS else SUBCOMMANDS:
            if name not in self.commands:
                self.commands[name] = _load(name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        # A line of the list needs no options, and reading those of all commands took a third of --help.
        commands = [TyperCommand(name, help=_help(name)) for name in SUBCOMMANDS]
        TyperGroup(commands=commands).format_commands(ctx, formatter)

    def make_context(self, *words: Any, **options: Any) -> Any:
        with _discreet():
            return super().make_context(*words, **options)

    def invoke(self, ctx: Any) -> Any:
        with _discreet():
            return super().invoke(ctx)


@contextmanager
def _discreet() -> Iterator[None]:
    """A complaint about a word of the command line repeats no connection string."""
    try:
        yield
    except _UsageError as error:
        from walproof.settings.conninfo import without_conninfos

        error.message = without_conninfos(error.message, sys.argv, os.environ)
        if sys.argv[1:2] == ["watch"] and "--check" in sys.argv:
            # A plugin's status 2 is critical, and that is the one of all complaints about a command line.
            from walproof.cli.watch_loop import answer
            from walproof.report.watch.check import failed

            answer(failed(error.format_message()))
        raise


def _load(name: str) -> Any:
    found = _declared(name)
    parent = typer.Typer(add_completion=False, rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name)
    else:
        parent.command(name)(found)
    return get_group(parent).commands[name]


def _declared(name: str) -> Any:
    """The group or the function of a subcommand."""
    function = name.replace("-", "_")
    module = import_module(f"walproof.cli.{function}")
    return module.app if hasattr(module, "app") else getattr(module, function)


def _help(name: str) -> str | None:
    found = _declared(name)
    if isinstance(found, typer.Typer) and not found.info.help and found.registered_callback is not None:
        found = found.registered_callback.callback
    return found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)


app = typer.Typer(
    cls=_Subcommands,
    name="walproof",
    help="Tunes PostgreSQL's write path and proves what each setting costs and what it risks.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from walproof import __version__

        typer.echo(f"walproof {__version__}")
        raise typer.Exit
