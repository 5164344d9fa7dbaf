"""Totals of WAL by one criterion: exact numbers under fixed names, for tables, JSON and CSV alike."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from enum import Enum
from typing import TypeAlias

from walproof.wal import RelationMap, RelationTotals, WalStats, WalTotals

Value: TypeAlias = str | int | None
Row: TypeAlias = Mapping[str, Value]
UNTIMED = "after the last commit"
"""What stands in place of a minute where nothing tells one."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class By(Enum):
    """What WAL is totalled by."""

    rmgr = "rmgr"
    record = "record"
    relation = "relation"
    fork = "fork"
    index = "index"
    minute = "minute"


def rows(wal: WalStats, by: By, names: RelationMap | None = None) -> list[Row]:
    """A row for each resource manager, operation, relation, ...: most bytes first, minutes (of UTC) in order.

    Rows add up to the totals, except for ``index``, which leaves out everything else.
    """
    if by is By.minute:
        found: list[Row] = [
            {
                "minute": datetime.fromtimestamp(minute.start_at, UTC).isoformat(timespec="minutes"),
                "commits": minute.commits,
                **_columns(minute.totals),
            }
            for minute in wal.minutes
        ]
        if wal.untimed.records:
            found.append({"minute": UNTIMED, "commits": 0, **_columns(wal.untimed)})
        return found
    if by is By.rmgr:
        named = [(name, rmgr.totals) for name, rmgr in wal.rmgrs.items()]
        return _sorted([{"rmgr": name, **_columns(totals)} for name, totals in named])
    if by is By.record:
        return _sorted(
            [
                {"record": f"{name}/{operation}", **_columns(totals)}
                for name, rmgr in wal.rmgrs.items()
                for operation, totals in rmgr.operations.items()
            ]
        )
    return _relation_rows(wal, by, names)


def largest(found: list[Row], most: int) -> list[Row]:
    """The rows with the most bytes, ``most`` at most, in the order in which they stand."""
    ranked = sorted(range(len(found)), key=lambda place: -_bytes(found[place]))
    return [found[place] for place in sorted(ranked[:most])]


def _relation_rows(wal: WalStats, by: By, names: RelationMap | None) -> list[Row]:
    known = names.by_place() if names else {}
    grouped: dict[tuple[int | str, ...], list[RelationTotals]] = {}
    for part in wal.relations:
        place = (part.tablespace, part.database, part.relation)
        grouped.setdefault((*place, part.fork) if by is By.fork else place, []).append(part)
    hours = commit_hours(wal)
    found: list[Row] = []
    for of_row in grouped.values():
        first = of_row[0]
        relation = known.get((first.tablespace, first.database, first.relation))
        method = relation.method if relation else next((part.method for part in of_row if part.method), None)
        kind = relation.kind if relation else "index" if method else None
        if by is By.index and not (kind and "index" in kind):
            continue
        row: dict[str, Value] = {
            "relation": relation.label
            if relation
            else f"{first.tablespace}/{first.database}/{first.relation}",
            "kind": kind,
            "method": method,
            "tablespace": first.tablespace,
            "database": first.database,
            "relfilenumber": first.relation,
        }
        if by is By.fork:
            row["fork"] = first.fork
        if by is By.index and names:
            row["idx_scan"] = relation.idx_scan if relation else None
        totals = sum((part.totals for part in of_row), WalTotals())
        row.update(_columns(totals))
        row["distinct_blocks"] = sum(part.distinct_blocks for part in of_row)
        if by is By.index and hours is not None:
            row["combined_bytes_per_hour"] = round(totals.combined_bytes / hours)
        found.append(row)
    if by is not By.index and wal.no_relation.records:
        empty = dict.fromkeys(found[0]) if found else {}
        found.append(
            {**empty, "relation": "(no relation)", **_columns(wal.no_relation), "distinct_blocks": 0}
        )
    return _sorted(found)


def commit_hours(wal: WalStats) -> float | None:
    """Hours from the first commit to the last. None when they are less than a second apart, or with gaps,
    which may hold most of the time."""
    if wal.first_commit_at is None or wal.last_commit_at is None or wal.gaps:
        return None
    seconds = wal.last_commit_at - wal.first_commit_at
    return seconds / 3600 if seconds >= 1 else None


def _columns(totals: WalTotals) -> dict[str, Value]:
    return {
        "records": totals.records,
        "record_bytes": totals.record_bytes,
        "image_count": totals.image_count,
        "image_bytes": totals.image_bytes,
        "combined_bytes": totals.combined_bytes,
    }


def _sorted(found: list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: -_bytes(row))


def _bytes(row: Row) -> int:
    return int(row["combined_bytes"] or 0)


def csv_text(found: list[Row]) -> str:
    """The rows with a heading. Text that a spreadsheet would take for a formula gets an apostrophe:

    names of relations come from the server's users (OWASP, "CSV Injection"). Numbers stay numbers.
    """
    if not found:
        return ""
    columns = list(found[0])
    lines = [_csv_line(columns), *(_csv_line([row.get(name) for name in columns]) for row in found)]
    return "".join(lines)


def _csv_line(values: Sequence[Value]) -> str:
    # csv puts quotes around a carriage return only where it ends lines with one.
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(map(_harmless, values))
    return line.getvalue().removesuffix("\r\n") + "\n"


def _harmless(value: Value) -> Value:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def json_text(wal: WalStats, by: By, found: list[Row]) -> str:
    """Everything that is known about the WAL, and the rows. Locations are text, times Unix seconds."""
    error = wal.error
    data = {
        "version": wal.version,
        "system_identifier": str(wal.system_identifier),  # 64 bits do not fit a double
        "segment_size": wal.segment_size,
        "timeline": wal.timeline,
        "start": str(wal.start),
        "end": str(wal.end),
        "lsn_distance": wal.end - wal.start,
        "finish": wal.finish.value,
        "finish_reason": wal.finish_reason,
        "error": None if error is None else {
            "message": error.message, "detail": error.detail, "hint": error.hint,
        },
        "totals": _columns(wal.totals),
        "images": {
            **asdict(wal.images),
            "compression_ratio": wal.images.uncompressed_bytes / max(1, wal.images.bytes),
        },
        "accounting": {**asdict(wal.accounting), "total_bytes": wal.accounting.total_bytes},
        "gaps": [{"start": str(gap.start), "end": str(gap.end)} for gap in wal.gaps],
        "commits": wal.commits,
        "aborts": wal.aborts,
        "first_commit_at": wal.first_commit_at,
        "last_commit_at": wal.last_commit_at,
        "checkpoints": [
            {
                "lsn": str(checkpoint.lsn), "redo": str(checkpoint.redo), "kind": checkpoint.kind.value,
                "timeline": checkpoint.timeline, "at": checkpoint.at,
            }
            for checkpoint in wal.checkpoints
        ],
        "by": by.value,
        "rows": found,
    }  # fmt: skip
    return json.dumps(data, indent=2) + "\n"
