"""Arguments that commands reading WAL share, and names of relations: from a server, a map or a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli.streams import say
from walproof.errors import WalError

if TYPE_CHECKING:
    from walproof.wal import RelationMap
    from walproof.wal.places.opened import Path as WalPath

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="pg_wal or archive folders, segments; plain or gzip, lz4, zstd, xz, lzma, bzip2, brotli; "
        "s3://, gs://, az:// as well.",
    ),
]
Start = Annotated[
    str | None, typer.Option("--start", "-s", metavar="LSN", help="First record at or after this LSN.")
]
End = Annotated[
    str | None, typer.Option("--end", "-e", metavar="LSN", help="Records that end at or before this LSN.")
]
Resolve = Annotated[
    str | None, typer.Option("--resolve", metavar="DSN", help="Server to ask for names of relations.")
]
MapFile = Annotated[
    Path | None,
    typer.Option(
        "--map", metavar="FILE", help='Names saved by "walproof wal map". A recording brings its own.'
    ),
]


def given_names(dsn: str | None, file: Path | None) -> RelationMap | None:
    """The names that the user asked for."""
    if dsn is not None and file is not None:
        raise WalError("--resolve and --map exclude each other")
    if dsn is not None:
        return ask_for_names(dsn)
    if file is not None:
        from walproof.wal.relations import read_map

        return read_map(file)
    return None


def names_of(
    given: RelationMap | None, paths: Sequence[WalPath], system_identifier: int
) -> RelationMap | None:
    """Those that the user gave, else those of a recording. Raises WalError where the former are another
    cluster's."""
    if given is None:
        return recorded_names_of(paths, system_identifier, warn)
    require_same_system(given, system_identifier)
    return given


def recorded_names_of(
    paths: Sequence[WalPath], system_identifier: int, warn: Callable[[str], None]
) -> RelationMap | None:
    """The names that a recording among the paths, or around them, has brought along.

    Names that cannot be used are not an error: ``warn`` is told why, in a sentence.
    """
    from walproof.wal.recording import recorded_names
    from walproof.wal.relations import read_map

    for recorded in filter(None, map(recorded_names, paths)):
        try:
            names = read_map(recorded)
            require_same_system(names, system_identifier)
        except WalError as error:
            # Nobody asked for them: the WAL is read all the same.
            warn(f"{error.message}: relations have no names")
        else:
            return names
    return None


def warn(sentence: str) -> None:
    """Say it on stderr, and go on."""
    say(f"walproof: warning: {sentence}")


def require_same_system(names: RelationMap, system_identifier: int) -> None:
    """Raises WalError where names are those of another cluster than the WAL."""
    if names.system_identifier != system_identifier:
        raise WalError(
            "the names are those of another cluster",
            detail=f"System identifier {names.system_identifier}, the WAL has {system_identifier}.",
        )


def ask_for_names(dsn: str) -> RelationMap:
    """The names that a server knows; databases that could not be asked are told on stderr."""
    from walproof.probe.relations import read_relations

    names = read_relations(dsn)
    for reason in names.left_out:
        say(f"left out: database {reason}")
    return names
