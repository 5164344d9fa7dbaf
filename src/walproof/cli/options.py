"""Options that several subcommands share, and how their texts are read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.errors import SettingError, UnitError

if TYPE_CHECKING:
    from rich.console import Console

    from walproof.facts.store import Store

Out = Annotated[
    Path,
    typer.Option("--out", metavar="FOLDER", envvar="WALPROOF_OUT", help="Folder of results and reports."),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="URL", envvar="WALPROOF_STORE",
        help="Where facts are kept: a file, or postgresql://... of a shared server. Default: in --out.",
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Pg = Annotated[
    list[str] | None,
    typer.Option(
        "--pg", metavar="DIR|VERSION",
        help="PostgreSQL to run: a folder, 13.7, 16, embedded or embedded-16. May be repeated.",
    ),
]  # fmt: skip
OnePg = Annotated[
    str | None,
    typer.Option(
        "--pg", metavar="DIR|VERSION",
        help="PostgreSQL to run, of the version that was run then. Default: one that is found here.",
    ),
]  # fmt: skip
On = Annotated[
    Path | None,
    typer.Option("--on", metavar="FOLDER", help="Folder whose disk is measured. Default: walproof's cache."),
]
WalFolder = Annotated[
    Path | None,
    typer.Option(
        "--waldir", metavar="FOLDER", help="One variant more: pg_wal in that folder, as on another disk."
    ),
]
Rounds = Annotated[int | None, typer.Option("--rounds", min=1, help="Rounds to run (at most).")]
HalfWidth = Annotated[
    str | None,
    typer.Option("--half-width", metavar="SHARE", help="Stop when every interval is within +-3%."),
]
Budget = Annotated[
    str | None, typer.Option("--budget", metavar="TIME", help="Begin no round that would end later: 30min.")
]
Warmup = Annotated[str | None, typer.Option("--warmup", metavar="TIME", help="Load before each window.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Seed of orders and transactions.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the resolved plan and stop.")]
New = Annotated[bool, typer.Option("--new", help="Leave an interrupted run alone; begin another.")]
DEFAULT_OUT = Path("walproof-out")
_PLAIN_WIDTH = 100


def open_store(out: Path, url: str | None) -> Store:
    """The store that ``--out`` and ``--store`` name. Raises StoreError."""
    from walproof.facts.store import Store

    return Store(url if url is not None else out / "walproof.sqlite")


def open_existing_store(out: Path, url: str | None) -> Store:
    """As ``open_store``, for commands that only read. Raises StoreError when there is nothing yet."""
    from walproof.errors import StoreError

    if url is None and not (out / "walproof.sqlite").exists():
        raise StoreError(
            f'folder "{out}" holds no results',
            hint='"walproof run durability --quick" makes some; --out names another folder.',
        )
    return open_store(out, url)


def command_line(*words: str, **flags: object) -> list[str]:
    """The command that repeats a run: ``words`` after ``walproof``, then the options in their order.

    A keyword is the option's name. What was not given (None, False, the default of --out) is left out; True
    has no value; of a list each value has the option before it.
    """
    command = ["walproof", *words]
    for name, given in flags.items():
        option = "--" + name.strip("_").replace("_", "-")
        for value in given if isinstance(given, list) else [given]:
            if value is True:
                command.append(option)
            elif value is not None and value is not False and (name, value) != ("out", DEFAULT_OUT):
                command += [option, str(value)]
    return command


def result_console() -> Console:
    """The console of a result on stdout; as wide as the tables want where there is no terminal."""
    from rich.console import Console

    console = Console(file=sys.stdout, highlight=False)
    return console if console.is_terminal else Console(file=sys.stdout, highlight=False, width=_PLAIN_WIDTH)


def parse_sets(texts: Sequence[str]) -> list[dict[str, str]]:
    """``["a=1,b=2", "c=3"]`` -> ``[{a: 1, b: 2}, {c: 3}]``. Raises SettingError.

    A comma separates settings only where a name and "=" follow: values may hold commas.
    """
    return [_parse_set(text) for text in texts]


def _parse_set(text: str) -> dict[str, str]:
    settings: dict[str, str] = {}
    for part in re.split(r",\s*(?=[A-Za-z_][A-Za-z0-9_.]*\s*=)", text):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise SettingError(
                f'"{part}" is not a setting', hint="Write --set name=value, several separated by commas."
            )
        if name.strip() in settings:
            raise SettingError(f'setting "{name.strip()}" is given twice in "{text}"')
        settings[name.strip()] = value.strip().strip("'\"")
    return settings


def parse_share(text: str) -> float:
    """``3%`` or ``0.03`` -> 0.03. Raises UnitError."""
    number = text.strip().removesuffix("%").strip()
    try:
        share = float(number) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UnitError(f'invalid share: "{text}"', hint="Write 3% or 0.03.")
    return share


def duration_s(text: str | None) -> float | None:
    """Seconds of an optional duration. Raises UnitError."""
    from walproof.units import parse_duration_s

    return None if text is None else parse_duration_s(text)


def positive_bytes(option: str, text: str) -> int:
    """The bytes of an option. Raises SettingError when they are none, UnitError."""
    from walproof.units import parse_bytes

    count = parse_bytes(text)
    if count <= 0:
        raise SettingError(
            f"{option} must be more than nothing",
            detail=f'Given: "{text}".',
            hint="Sizes are written like 128MB or 8GB.",
        )
    return count


def buffers(option: str, text: str) -> int:
    """A size of shared_buffers, in buffers of 8 kB. Raises as `positive_bytes`."""
    from walproof.wal.recovery import PAGE_BYTES

    return positive_bytes(option, text) // PAGE_BYTES


Device = Annotated[
    str | None,
    typer.Option(
        "--device", metavar="DISK", help="Emulate a disk: doc-000-vm, or flush=1.43ms,write=200MB/s."
    ),
]
PowerCut = Annotated[
    int | None,
    typer.Option(
        "--power-cut", metavar="N", min=1, help="Cut the power in each trial too, and check N images."
    ),
]
KeepFailures = Annotated[
    Path | None,
    typer.Option("--keep-failures", metavar="DIR", help="Keep images that fail after a power cut."),
]


def memory_folder(on: Path | None) -> Path:
    """Where clusters live whose disk is simulated anyway: in ``--on``, or in memory."""
    from walproof.postgres.cache import cache_folder

    if on is None and _SHARED_MEMORY.is_dir():
        # By user, because the folder's owner is whoever comes first.
        return _SHARED_MEMORY / f"walproof-work-{os.getuid()}"
    return cache_folder() / "work" if on is None else on.absolute() / "walproof-work"


_SHARED_MEMORY = Path("/dev/shm")


def work_folder(on: Path | None) -> Path:
    """Where clusters live: in ``--on``, or in the cache."""
    from walproof.postgres.cache import cache_folder

    if on is None:
        return cache_folder() / "work"
    return on.absolute() / "walproof-work"
