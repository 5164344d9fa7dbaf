"""Names of relations, which the catalogs know and the WAL does not.

The WAL knows a relation by tablespace, database and file number. A map holds the names that these had when a
server was asked (``walproof wal map``); ``walproof.probe.relations`` asks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from walproof.checked import checked, parsed
from walproof.errors import WalError
from walproof.files import reason
from walproof.wal.places.folder import Folder
from walproof.wal.places.place import Place, read_text

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation, as ``pg_class`` has it."""

    tablespace: int
    database: int
    relation: int
    """The file number (``pg_relation_filenode``)."""
    database_name: str
    """Name of the database; empty for shared catalogs."""
    name: str
    """The relation's name with its schema: ``public.orders``."""
    kind: str
    """``table``, ``index``, ``toast table``, ``toast index``, ``sequence``, ``materialized view``."""
    method: str | None
    """Access method of an index."""
    owner: str | None
    """The table that an index or a TOAST table belongs to, or that a partition is part of."""
    idx_scan: int | None = None
    """How often an index was used since the statistics were reset; None for what is not an index."""
    ancestors: tuple[str, ...] = ()
    """Of a partition the tables that it is part of, with their schemas: the nearest first. Empty in maps of
    earlier versions."""

    @property
    def label(self) -> str:
        """How it is called in tables: ``shop: public.orders_pkey``."""
        owner = f" ({self.kind} of {self.owner})" if self.owner and "toast" in self.kind else ""
        return f"{self.database_name or 'shared'}: {self.name}{owner}"


@dataclass(frozen=True, slots=True)
class RelationMap:
    """The relations of a cluster at one moment."""

    system_identifier: int
    version_num: int
    taken_at: float
    """Unix time."""
    relations: tuple[Relation, ...]
    left_out: tuple[str, ...] = ()
    """Databases that could not be asked, with the reason."""

    def find(self, tablespace: int, database: int, relation: int) -> Relation | None:
        """The relation with those numbers, if it was there."""
        return self.by_place().get((tablespace, database, relation))

    def by_place(self) -> dict[tuple[int, int, int], Relation]:
        """(tablespace, database, file number) -> relation."""
        return {
            (relation.tablespace, relation.database, relation.relation): relation
            for relation in self.relations
        }

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1) + "\n"


def read_map(path: Path | Place) -> RelationMap:
    """The map in a file that ``walproof wal map`` wrote. Raises WalError."""
    hint = 'Write one: walproof wal map "host=... dbname=..." > map.json'
    try:
        data = parsed(read_text(path if isinstance(path, Place) else Folder(path)))
    except (OSError, ValueError) as error:
        raise WalError(
            f'could not read relation map "{path}"',
            detail=reason(error),
            hint=hint,
        ) from error
    try:
        _require_format(data["format"])
        return checked(RelationMap, data)
    except (TypeError, KeyError, ValueError) as error:
        raise WalError(f'file "{path}" is not a relation map', detail=str(error), hint=hint) from error


def _require_format(number: object) -> None:
    if number != _FORMAT:
        raise ValueError(f"format {number}, expected {_FORMAT}")


def find_relations(wanted: Sequence[str], names: RelationMap | None) -> tuple[tuple[int, int, int], ...]:
    """The places of relations that are given as ``1663/5/16384`` (pg_waldump's way), or by names of a map:
    ``public.orders``, ``orders``, and ``shop: public.orders`` where several databases have one. A partitioned
    table is its partitions; indexes and TOAST tables are relations of their own.

    Raises WalError for a name that is not in the map.
    """
    found: dict[tuple[int, int, int], None] = {}
    for text in wanted:
        parts = text.split("/")
        if len(parts) == 3 and all(part.isdecimal() and int(part) < 2**32 for part in parts):
            found[int(parts[0]), int(parts[1]), int(parts[2])] = None
        elif names is None:
            raise WalError(
                f'nothing here knows the name of relation "{text}"',
                hint="Give names with --resolve or --map (a recording brings its own), or the numbers of the "
                "path: 1663/5/16384 for tablespace 1663, database 5, pg_relation_filenode 16384.",
            )
        else:
            found |= dict.fromkeys(_named(text, names))
    return tuple(found)


def _is_called(relation: Relation, text: str) -> bool:
    """Whether that is its name, or one of a partitioned table: that has no files but those of its partitions,
    on any level."""
    called = (relation.name, *relation.ancestors)
    # Maps of earlier versions know no more than the nearest table.
    plain = text.removeprefix("public.")
    return (
        text == relation.label
        or any(text in (name, name.partition(".")[2], f"{relation.database_name}: {name}") for name in called)
        or (relation.kind == "table" and relation.owner is not None and relation.owner in (text, plain))
    )


def _named(text: str, names: RelationMap) -> list[tuple[int, int, int]]:
    places = [
        (relation.tablespace, relation.database, relation.relation)
        for relation in names.relations
        if _is_called(relation, text)
    ]
    if not places:
        # Most commands never look for a name.
        from difflib import get_close_matches

        known = {name for relation in names.relations for name in (relation.name, *relation.ancestors)}
        close = get_close_matches(text, sorted(known), n=3, cutoff=0.5)
        raise WalError(
            f'the names have no relation "{text}"',
            hint=f"Is it {' or '.join(close)}?" if close else "Names are written as in public.orders.",
        )
    return places
