"""The network between two servers: in the words of a study file, and as measured between hosts."""

from __future__ import annotations

from walproof.facts import Cell
from walproof.report.blocks import Block, Column, Table, TableCell
from walproof.report.cells import Cells
from walproof.report.numbers import rate, shown
from walproof.report.variants import GROUPED_COLUMNS, grouped_cells
from walproof.units import format_bytes, format_duration

_ROUND_TRIP, _THROUGHPUT = "network_round_trip_ms", "network_bytes_per_s"
_COLUMNS = (
    *GROUPED_COLUMNS,
    Column("round trip ms", numeric=True),
    Column("at most", numeric=True),
    Column("throughput", numeric=True),
    Column("at least", numeric=True),
    Column("trials", numeric=True, terminal=False),
)
_NOTE = (
    "Plain TCP from the primary's host to that of its first standby, before the load of each trial; medians "
    "over trials, and the worst of them. Half of a round trip is what a distance emulates. Servers between "
    "hosts speak TLS, those of one machine do not."
)


def way_of(
    distance_s: float, bandwidth_bytes_per_s: int | None, *, between_hosts: bool = False
) -> dict[str, str]:
    """Distance and bandwidth, if set."""
    found = {"distance": "hosts"} if between_hosts else {}
    if distance_s:
        found["distance"] = format_duration(distance_s)
    if bandwidth_bytes_per_s is not None:
        found["bandwidth"] = f"{format_bytes(bandwidth_bytes_per_s)}/s"
    return found


def network_tables(cells: Cells) -> list[Block]:
    """The network of the variants between hosts; nothing where there are none."""
    rows = []
    for group in cells.groups():
        for variant in cells.variants():
            cell = Cell(*group, variant.name)
            trips, rates = cells.values(cell, _ROUND_TRIP), cells.values(cell, _THROUGHPUT)
            if trips and rates:
                texts = (
                    cells.shown(cell, _ROUND_TRIP),
                    shown(_ROUND_TRIP, max(trips)),
                    rate(cells.median(cell, _THROUGHPUT)),
                    rate(min(rates)),
                    str(len(trips)),
                )
                rows.append((*grouped_cells(cells, cell), *map(TableCell, texts)))
    return [Table("The network between the hosts", _COLUMNS, tuple(rows), _NOTE)] if rows else []
