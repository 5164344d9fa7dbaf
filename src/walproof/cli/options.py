"""Options that several subcommands share, and how their texts are read."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walproof.errors import SettingError

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
        help='Where facts are kept: a file, or a server such as "postgresql:///?service=facts". Default: in '
            '--out.',
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
HostNames = Annotated[
    list[str] | None,
    typer.Option(
        "--name", metavar="HOST", help="Host name by which browsers reach the page, if it is not an "
            "address. May be repeated.",
    ),
]  # fmt: skip
OnePg = Annotated[
    str | None,
    typer.Option(
        "--pg", metavar="DIR|VERSION",
        help="PostgreSQL to run: a folder, 16.4, 16, embedded or embedded-16. Default: one found on this "
            "machine.",
    ),
]  # fmt: skip
On = Annotated[
    Path | None,
    typer.Option("--on", metavar="FOLDER", help="Folder whose disk is measured. Default: walproof's cache."),
]
LOSSES = "nothing, commits, table, cluster"
"""Words of ``--may-lose``, for a help that imports nothing that reads them."""
MayLose = Annotated[str, typer.Option("--may-lose", metavar="WHAT", help=f"What a crash may cost: {LOSSES}.")]
PLATFORM_NAMES = (
    "conf, alter-system, patroni, cnpg, zalando, crunchy, rds, rds-terraform, aurora, azure, cloudsql, values"
)
"""Those of ``--platform``."""
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="HOST:PORT",
        help="Let the hosts of this Ray cluster do the work (docs/many-machines.md).",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option("--insecure", help="With --ray: use the cluster even if it is open, public or run by root."),
]
Timeline = Annotated[int | None, typer.Option("--timeline", "-t", min=1, help="Newest timeline to read.")]
AllowGaps = Annotated[
    bool, typer.Option("--allow-gaps", help="Continue after missing segments, and list them.")
]
OneRecording = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="pg_wal or archive folders and segments of one recording; s3://, gs://, az:// as well.",
    ),
]
DEFAULT_OUT = Path("walproof-out")
_PLAIN_WIDTH = 100


def with_places(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose ``paths``, given as texts, are open places until its end."""

    @functools.wraps(command)
    def opened(*, paths: Sequence[str], **others: Any) -> None:
        from walproof.wal.places.opened import open_places

        with open_places(paths) as places:
            command(paths=places, **others)

    return opened


def open_store(out: Path, url: str | None) -> Store:
    """The store that ``--out`` and ``--store`` name. Raises StoreError."""
    from walproof.facts.store import Store

    return Store(url if url is not None else out / "walproof.sqlite")


def open_existing_store(out: Path, url: str | None) -> Store:
    """The same for commands that make none. Raises StoreError when there is nothing yet."""
    from walproof.errors import StoreError, StoreMissingError
    from walproof.facts.place import find_place, require_there
    from walproof.facts.store import Store

    if url is None:
        try:
            require_there(find_place(out / "walproof.sqlite"))
        except StoreMissingError:
            raise StoreError(
                f'folder "{out}" holds no results',
                hint='"walproof run durability --quick" makes some; --out names another folder.',
            ) from None
    return Store(url if url is not None else out / "walproof.sqlite", must_exist=True)


def repeatable_store(url: str) -> str:
    """``--store`` for a command that is printed and kept, without what may be secret. Raises StoreError."""
    from walproof.facts.place import repeatable

    return repeatable(url)


def place_words(out: Path, url: str | None) -> list[str]:
    """``--out``, where it is not the default, and ``--store`` as `repeatable_store` has it. Raises
    StoreError."""
    words = [] if out == DEFAULT_OUT else ["--out", str(out)]
    return words if url is None else [*words, "--store", repeatable_store(url)]


def result_console() -> Console:
    """The console for a result on stdout; without a terminal it is as wide as the tables.

    It looks for no markup: a path or a name may have brackets.
    """
    from rich.console import Console

    made = functools.partial(Console, file=sys.stdout, highlight=False, markup=False, emoji=False)
    console = made()
    return console if console.is_terminal else made(width=_PLAIN_WIDTH)


def parse_sets(texts: Sequence[str]) -> list[dict[str, str]]:
    """``["a=1,b=2", "c=3"]`` -> ``[{a: 1, b: 2}, {c: 3}]``. Raises SettingError.

    A comma separates settings only where a name and "=" follow: values may hold commas. Quotes around a whole
    value are taken off.
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
        settings[name.strip()] = _unquoted(value.strip())
    return settings


def _unquoted(value: str) -> str:
    """Without one pair of quotes around the whole: others, as of two names in a list, belong to the value."""
    is_whole = len(value) >= 2 and value[0] in "'\"" and value[0] == value[-1] and value[0] not in value[1:-1]
    return value[1:-1] if is_whole else value


def duration_s(text: str | None) -> float | None:
    """Seconds of an optional duration. Raises UnitError."""
    from walproof.units import parse_duration_s

    return None if text is None else parse_duration_s(text)


def budget_s(text: str | None) -> float | None:
    """Seconds of ``--budget``. Raises SettingError when there are none, UnitError."""
    seconds = None if text is None else duration_s(text.strip().removeprefix("-"))
    if text is not None and (not seconds or text.strip().startswith("-")):
        raise SettingError(
            "--budget must be above zero",
            detail=f'Given: "{text}".',
            hint="Times are written like 30min or 2h.",
        )
    return seconds


WITHOUT_UNIT_LEAST = 8192
"""Fewer bytes than a page are meant by nobody who names no unit."""


def positive_bytes(option: str, text: str) -> int:
    """The bytes of an option. Raises SettingError when there are none, UnitError."""
    from walproof.units import parse_bytes

    count = parse_bytes(text)
    if count <= 0:
        raise SettingError(
            f"{option} must be above zero",
            detail=f'Given: "{text}".',
            hint="Sizes are written like 128MB or 8GB.",
        )
    if text.strip().isdigit() and count < WITHOUT_UNIT_LEAST:
        raise SettingError(
            f"{option} {text.strip()} has no unit, so it would be bytes",
            hint="Sizes are written like 128MB or 8GB.",
        )
    return count


def buffers(option: str, text: str) -> int:
    """A size of shared_buffers, in buffers of 8 kB. Raises as `positive_bytes`."""
    from walproof.wal.recovery import PAGE_BYTES

    return positive_bytes(option, text) // PAGE_BYTES


def memory_folder(on: Path | None, *, of_hosts: bool = False) -> Path:
    """Where clusters with a simulated disk live: in ``--on``, or in memory. As ``work_folder``."""
    if on is None and _SHARED_MEMORY.is_dir():
        # By user, because the folder's owner is whoever comes first.
        return _SHARED_MEMORY / f"walproof-work-{os.getuid()}"
    return work_folder(on, of_hosts=of_hosts)


_SHARED_MEMORY = Path("/dev/shm")


def work_folder(on: Path | None, *, of_hosts: bool = False) -> Path:
    """Where clusters live: in ``--on``, or in the cache. Raises DiskError for a folder that does not exist
    or may not be looked at.

    It is not made: a mistyped path, or a disk that is not mounted, would measure another disk. ``of_hosts``:
    it is a folder of other machines, and those look for it.
    """
    from walproof.errors import DiskError
    from walproof.files import is_folder, is_there
    from walproof.postgres.cache import cache_folder

    if on is None:
        return cache_folder() / "work"
    if not of_hosts and not is_folder(on):
        raise DiskError(
            f'--on "{on}" is not a folder' if is_there(on) else f'folder "{on}" of --on does not exist',
            hint="Name a folder on the disk that is to be measured: walproof makes none there but its own.",
        )
    return on.absolute() / "walproof-work"


def complete_study(incomplete: str) -> list[str]:
    """Built-in studies that begin like this. As all that a shell completes, it is imported when it asks."""
    from walproof.lab.study import built_in_names

    return [name for name in built_in_names() if name.startswith(incomplete)]


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """``last``, and stored runs that begin like this, the newest first. No server is asked."""
    known = ["last"]
    # A shell that waits for words shows no error, whatever it is.
    with suppress(Exception):
        known += _run_names(ctx.params.get("out") or DEFAULT_OUT, ctx.params.get("store"))
    return [name for name in known if name.startswith(incomplete)]


def complete_stored(ctx: typer.Context, incomplete: str) -> list[str]:
    """Stored runs that begin like this, and tunings, whose newest come first, too."""
    found: list[str] = []
    with suppress(Exception):
        from walproof.facts.tuning_journal import JOURNAL_FILE

        kept = (Path(ctx.params.get("out") or DEFAULT_OUT) / "tunings").glob(f"*/{JOURNAL_FILE}")
        newest = sorted(kept, key=lambda path: path.stat().st_mtime, reverse=True)
        found = [path.parent.name for path in newest if path.parent.name.startswith(incomplete)]
    return complete_run(ctx, incomplete) + found


def _run_names(out: str | Path, url: str | None) -> list[str]:
    """Runs of a store in a file, the newest first. ``out``: a text while a shell completes."""
    from walproof.facts.place import find_place

    if url is not None and find_place(url).path is None:
        return []
    store = open_existing_store(Path(out), url)
    try:
        return [run.id for run in reversed(store.runs())]
    finally:
        store.close()


def complete_platform(incomplete: str) -> list[str]:
    """Platforms that begin like this."""
    from walproof.platforms.registry import PLATFORMS

    return [name for name in PLATFORMS if name.startswith(incomplete)]


def complete_setting(incomplete: str) -> list[str]:
    """``NAME=`` of settings that begin like the last of ``NAME=VALUE,NAME``."""
    from walproof.settings.risk import about

    given, comma, last = incomplete.rpartition(",")
    return [f"{given}{comma}{name}=" for name in about() if name.startswith(last)]


def complete_operation(incomplete: str) -> list[str]:
    """Resource managers that begin like this; once one is given, its operations."""
    from walproof._native import operation_names

    return [
        name
        for name in operation_names()
        if name.startswith(incomplete) and ("/" in name) == ("/" in incomplete)
    ]


def complete_one_of(*words: str) -> Callable[[str], list[str]]:
    """The words that begin like what is typed."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete
