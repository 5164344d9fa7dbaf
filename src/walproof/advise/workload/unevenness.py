"""Which rows of a table are changed again and again: told from the page images of its statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from walproof.advise.workload.parameters import ReadStatement
from walproof.analysis.working_set import Counted, Draws, Pages, fit
from walproof.facts.application import AppColumn, Application, AppStatement, AppTable

_IMAGES_LEAST = 100
"""Fewer tell nothing."""
_ORDERED = 0.8


def drawn_by(
    application: Application, read: Mapping[AppStatement, ReadStatement], tables: Sequence[AppTable]
) -> dict[str, Draws]:
    """Table -> law under which its changes make the images that were counted, where that can be told."""
    if not application.seconds or not application.cycle_parts:
        return {}
    counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for row, found in read.items():
        if found.target is not None:
            counts[found.target.name][found.verb] += row.rows
            counts[found.target.name]["images"] += row.wal_fpi
            counts[found.target.name]["early"] += row.wal_fpi_first_half or 0.0
    by_name = {table.name: table for table in tables}
    laws: dict[str, Draws] = {}
    for table in tables:
        of = counts[table.name]
        if of["images"] < _IMAGES_LEAST:
            continue
        families = list(_families(table, of, application.seconds, by_name))
        law = fit(families, application.cycle_parts, Counted(of["images"], of["early"]))
        if law is not None:
            laws[table.name] = law
    return laws


def _families(
    table: AppTable, counts: Mapping[str, float], seconds: float, tables: Mapping[str, AppTable]
) -> Iterator[Pages]:
    """The heap, the indexes, and the heaps whose rows are locked by foreign keys."""
    updates, deletes = counts["update"] + counts["merge"], counts["delete"]
    yield Pages(table.rows, table.heap_pages, (updates + deletes) / seconds)
    moved = updates * (1 - (table.hot_share or 0.0))
    columns = {column.name: column for column in table.columns}
    for names, pages in table.index_pages:
        grows_at_end = bool(names) and _rises(columns[names[0]])
        entries = moved + (0.0 if grows_at_end else counts["insert"])
        yield Pages(table.rows, pages, entries / seconds)
    for key in table.keys:
        other = tables.get(key.other or "")
        if key.kind == "f" and other is not None:
            yield Pages(other.rows, other.heap_pages, counts["insert"] / seconds)


def _rises(column: AppColumn) -> bool:
    return column.is_identity or (column.correlation is not None and column.correlation >= _ORDERED)
