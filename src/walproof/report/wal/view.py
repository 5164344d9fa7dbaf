"""A stretch of WAL laid out for reading: what is in it, where every byte goes, checkpoints, the rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from walproof.report.blocks import Block, Column, Paragraph, Section, Table, TableCell, text_cells
from walproof.report.figures.figure import Figure
from walproof.report.figures.wal_parts import WalPart, WalPartsData
from walproof.report.figures.wal_rate import WalMinute, WalRateData
from walproof.report.numbers import UNKNOWN, number, percent
from walproof.report.wal.rows import UNTIMED, By, Row, commit_hours, rows
from walproof.sentences import say_count
from walproof.units import format_bytes, format_duration
from walproof.wal import Checkpoint, CheckpointKind, Finish, RelationMap, WalStats
from walproof.wal.span import say_moment

_BARS_MOST = 20
_NAME_MOST = 44
"""Characters of a relation's name that the terminal shows on one line."""
_CHECKPOINTS_MOST = 100
_UNREAD_MOST = 5
_CHECKPOINTS_MOST_TERMINAL = 10
_FIRST_COLUMNS = {
    By.rmgr: ("rmgr", "resource manager"),
    By.record: ("record", "record"),
    By.relation: ("relation", "relation"),
    By.fork: ("relation", "relation"),
    By.index: ("relation", "index"),
    By.minute: ("minute", "minute"),
}


@dataclass(frozen=True, slots=True)
class WalView:
    """A page about one stretch of WAL."""

    question: str
    dateline: str
    sections: tuple[Section, ...]


def wal_view(wal: WalStats, by: By, names: RelationMap | None = None, limit: int | None = None) -> WalView:
    """Everything that is shown; ``limit`` bounds the rows of the table by ``by``."""
    found = rows(wal, by, names)
    parts = Section(
        "parts",
        "What the WAL is made of",
        (
            *_parts_figure(wal, by, found),
            _table(wal, by, found, limit),
            *_unnamed(found, names),
            *_unread(found),
        ),
    )
    figures = _rate_figure(wal)
    return WalView(
        question=f"What is in {format_bytes(wal.end - wal.start)} of WAL?",
        dateline=_dateline(wal),
        sections=tuple(
            section
            for section in (
                parts,
                Section("images", "Full-page images", tuple(_images(wal))),
                Section("bytes", "Where every byte goes", _accounting(wal)),
                Section("time", "Over time", (*_rate(wal), *figures)),
                Section("checkpoints", "Checkpoints", tuple(_checkpoints(wal, limit))),
                Section("end", "Where it ends", tuple(_end(wal))),
            )
            if section.blocks
        ),
    )


def _dateline(wal: WalStats) -> str:
    parts = [
        f"PostgreSQL {wal.version}",
        f"timeline {wal.timeline}",
        f"{wal.start} to {wal.end}",
        f"system identifier {wal.system_identifier}",
        f"segments of {format_bytes(wal.segment_size)}",
    ]
    return " · ".join(parts)


def _table(wal: WalStats, by: By, found: Sequence[Row], limit: int | None) -> Table:
    key, title = _FIRST_COLUMNS[by]
    total = wal.totals.combined_bytes or 1
    extra: list[tuple[str, Column]] = []
    if by is By.fork:
        extra.append(("fork", Column("fork")))
    if by in (By.relation, By.index):
        extra.append(("method", Column("method")))
    if by is By.minute:
        extra.append(("commits", Column("commits", numeric=True)))
    behind: list[tuple[str, Column]] = []
    is_relation = by in (By.relation, By.fork, By.index)
    if is_relation:
        behind.append(("distinct_blocks", Column("distinct blocks", numeric=True)))
    if any("idx_scan" in row for row in found):
        behind.append(("idx_scan", Column("scans", numeric=True)))
    if any("combined_bytes_per_hour" in row for row in found):
        behind.append(("combined_bytes_per_hour", Column("an hour", numeric=True)))
    shown = found if limit is None else found[:limit]
    lines = tuple(
        text_cells(
            [
                _local_minute(row) if by is By.minute else _text(row[key]),
                *(_text(row.get(name)) for name, _ in extra),
                f"{row['records']:,}",
                format_bytes(_int(row["record_bytes"])),
                f"{row['image_count']:,}",
                format_bytes(_int(row["image_bytes"])),
                format_bytes(_int(row["combined_bytes"])),
                percent(_int(row["combined_bytes"]) / total),
                number(_int(row["combined_bytes"]) / _int(row["records"])) if row["records"] else UNKNOWN,
                *(
                    format_bytes(_int(row[name]))
                    if name == "combined_bytes_per_hour"
                    else _text(row.get(name))
                    for name, _ in behind
                ),
            ]
        )
        for row in shown
    )
    totals = wal.totals
    note = (
        f"Total: {say_count(totals.records, 'record')}, {format_bytes(totals.record_bytes)} without images, "
        f"{format_bytes(totals.image_bytes)} of images, {format_bytes(totals.combined_bytes)} together."
    )
    if len(found) > len(shown):
        note += f" {len(found) - len(shown)} more rows are left out (--limit)."
    return Table(
        title=f"By {title}",
        columns=(
            Column(title, whole_most=_NAME_MOST),
            *(column for _, column in extra),
            Column("records", numeric=True),
            Column("record bytes", numeric=True, terminal=not is_relation),
            Column("images", numeric=True),
            Column("image bytes", numeric=True),
            Column("together", numeric=True),
            Column("share", numeric=True),
            Column("bytes per record", numeric=True, terminal=not is_relation),
            *(column for _, column in behind),
        ),
        rows=lines,
        note=note,
    )


def _local_minute(row: Row) -> str:
    """A minute by the local clock with its offset, as ``--since`` takes it."""
    minute = _text(row["minute"])
    if minute == UNTIMED:
        return minute
    return datetime.fromisoformat(minute).astimezone().isoformat(" ", "minutes")


def _unnamed(found: Sequence[Row], names: RelationMap | None) -> list[Block]:
    """How much WAL is of files that the names do not have, of which names may have had others."""
    if names is None or not names.relations:
        return []
    places = names.by_place()
    unnamed = [
        row
        for row in found
        if row.get("relfilenumber") is not None
        and (_int(row["tablespace"]), _int(row["database"]), _int(row["relfilenumber"])) not in places
    ]
    if not unnamed:
        return []
    size = format_bytes(sum(_int(row["combined_bytes"]) for row in unnamed))
    return [
        Paragraph(
            f"{say_count(len(unnamed), 'row')} with {size} {'has' if len(unnamed) == 1 else 'have'} no name: "
            "of relations that were dropped or rewritten, or made after the names were read. TRUNCATE, "
            "VACUUM FULL, CLUSTER, REINDEX and some ALTER TABLE write new files, so a row with a name may "
            "not hold all WAL of its relation.",
            terminal=True,
        )
    ]


def _unread(found: Sequence[Row]) -> list[Block]:
    """The cost of indexes that nobody reads, if the server said how often each was scanned."""
    unread = [row for row in found if row.get("idx_scan") == 0 and not _is_of_the_system(row)]
    hourly = [row for row in unread if row.get("combined_bytes_per_hour") is not None]
    if not unread:
        return []
    cost = (
        f"{format_bytes(sum(_int(row['combined_bytes_per_hour']) for row in hourly))} of WAL an hour"
        if hourly
        else f"{format_bytes(sum(_int(row['combined_bytes']) for row in unread))} of this WAL"
    )
    names = ", ".join(_text(row["relation"]) for row in unread[:_UNREAD_MOST])
    of = "1 index was" if len(unread) == 1 else f"{len(unread)} indexes were"
    more = f" and {len(unread) - _UNREAD_MOST} more" if len(unread) > _UNREAD_MOST else ""
    return [
        Paragraph(
            f"{of} never scanned since the statistics were reset: {cost}. The largest: {names}{more}. "
            "The index of a primary key, a unique or an exclusion constraint is needed anyway, "
            "and standbys count their own scans.",
            terminal=True,
        )
    ]


_SYSTEM_SCHEMAS = frozenset({"pg_catalog", "pg_toast", "information_schema"})


def _is_of_the_system(row: Row) -> bool:
    """Whether nobody can drop it: an index of a catalog or of a TOAST table."""
    name = _text(row["relation"]).partition(": ")[2]
    return name.partition(".")[0] in _SYSTEM_SCHEMAS


def _images(wal: WalStats) -> list[Block]:
    images = wal.images
    if not images.count:
        return [Paragraph("No full-page images.", terminal=True)]
    share = images.bytes / max(1, wal.totals.combined_bytes)
    verb = "takes" if images.count == 1 else "take"
    text = (
        f"{say_count(images.count, 'full-page image')} {verb} {format_bytes(images.bytes)}, "
        f"{percent(share)} of the bytes in records; {format_bytes(images.bytes / images.count)} each."
    )
    compressed = [(name, method) for name, method in images.compressed.items() if method.count]
    for name, method in compressed:
        text += (
            f" {name} compressed {method.count:,} of them to {format_bytes(method.bytes)} "
            f"from {format_bytes(method.uncompressed_bytes)} "
            f"({method.uncompressed_bytes / method.bytes:.2f} to 1)."
        )
    if not compressed:
        text += " None is compressed (wal_compression)."
    if images.hint_count:
        text += (
            f" {images.hint_count:,} of them ({format_bytes(images.hint_bytes)}) were written only because "
            "a hint bit was set (data checksums or wal_log_hints)."
        )
    if images.not_applied_count:
        text += f" {images.not_applied_count:,} are only for wal_consistency_checking: recovery skips them."
    return [Paragraph(text, terminal=True)]


def _accounting(wal: WalStats) -> tuple[Block, ...]:
    accounting = wal.accounting
    gaps = sum(gap.end - gap.start for gap in wal.gaps)
    lines = [
        ("records without their images", accounting.record_bytes - wal.totals.image_bytes),
        ("full-page images", wal.totals.image_bytes),
        ("padding of records to multiples of 8", accounting.padding_bytes),
        ("page headers (24 bytes)", accounting.page_header_bytes),
        ("segment headers (40 bytes)", accounting.segment_header_bytes),
        ("unused rests of switched segments", accounting.switch_bytes),
        ("records cut off by a crash", accounting.overwritten_bytes),
        ("missing (gaps)", gaps),
    ]
    distance = wal.end - wal.start
    total = sum(count for _, count in lines)
    kept = [
        (what, count) for what, count in lines if count or what.startswith(("records without", "padding"))
    ]
    rows = [text_cells([what, f"{count:,}", percent(count / distance) if distance else UNKNOWN])
            for what, count in kept]  # fmt: skip
    rows.append(text_cells(["sum", f"{total:,}", ""]))
    rows.append(text_cells([f"LSN distance {wal.start} to {wal.end}", f"{distance:,}", ""]))
    return (
        Table(
            "Where every byte goes",
            (Column("bytes of"), Column("bytes", numeric=True), Column("share", numeric=True)),
            tuple(rows),
            note="The sum is the LSN distance, to the byte."
            if total == distance
            else f"{distance - total:,} bytes are not accounted for.",
        ),
    )


def _rate(wal: WalStats) -> list[Block]:
    if wal.first_commit_at is None or wal.last_commit_at is None:
        return [Paragraph("No commit in this WAL has a time.", terminal=True)]
    seconds = wal.last_commit_at - wal.first_commit_at
    text = (
        f"{say_count(wal.commits, 'commit')} and {say_count(wal.aborts, 'abort')} between "
        f"{say_moment(wal.first_commit_at)} and {say_moment(wal.last_commit_at)} ({format_duration(seconds)})"
    )
    read = wal.end - wal.start - sum(gap.end - gap.start for gap in wal.gaps)
    if commit_hours(wal) is not None:
        text += f": {format_bytes(read / seconds)}/s of WAL, {number(wal.commits / seconds)} commits/s"
    if wal.commits:
        text += f", {format_bytes(read / wal.commits)} of WAL for each commit"
    if commit_hours(wal) is not None:
        # It has no time of its own.
        text += ". WAL before the first commit and after the last is counted as well"
    return [Paragraph(text + ".", terminal=True)]


def _checkpoints(wal: WalStats, limit: int | None) -> list[Block]:
    found = wal.checkpoints
    if not found:
        return [Paragraph("No checkpoint was completed in this WAL.", terminal=True)]
    lines = []
    before: Checkpoint | None = None
    for checkpoint in found:
        lines.append(
            text_cells(
                [
                    str(checkpoint.redo),
                    str(checkpoint.lsn),
                    "shutdown or end of recovery" if checkpoint.kind is CheckpointKind.SHUTDOWN else "online",
                    say_moment(checkpoint.at),
                    UNKNOWN if before is None else format_bytes(checkpoint.redo - before.redo),
                    UNKNOWN if before is None else f"{checkpoint.at - before.at:.0f} s",
                    format_bytes(checkpoint.lsn - checkpoint.redo),
                ]
            )
        )
        before = checkpoint
    spacings = [b.redo - a.redo for a, b in pairwise(found)]
    note = say_count(len(found), "checkpoint") + "."
    if spacings:
        ordered = sorted(spacings)
        note += (
            f" Redo points are {format_bytes(ordered[len(ordered) // 2])} apart (median; "
            f"{format_bytes(ordered[0])} to {format_bytes(ordered[-1])})."
        )
    most = _CHECKPOINTS_MOST if limit is None else min(limit, _CHECKPOINTS_MOST_TERMINAL)
    if len(lines) > most:
        note += f" The last {most} are shown; --json has all."
    return [
        Table(
            "Checkpoints",
            (
                Column("redo point"),
                Column("completed at"),
                Column("kind", terminal=False),
                Column("began"),
                Column("WAL since previous", numeric=True),
                Column("time since previous", numeric=True),
                Column("WAL while it ran", numeric=True),
            ),
            tuple(lines[-most:]),
            note=note,
        )
    ]


def _end(wal: WalStats) -> list[Block]:
    said = {
        Finish.REQUESTED: "The requested end was reached.",
        Finish.LAST_SEGMENT: f"The last segment at hand was read to its end ({wal.finish_reason}).",
        Finish.END_OF_WAL: f"The WAL ends at {wal.end}: {wal.finish_reason}.",
        Finish.ERROR: f"Reading ended early at {wal.end}: {wal.error.message if wal.error else ''}.",
    }
    found: list[Block] = [Paragraph(said[wal.finish], terminal=True)]
    if wal.gaps:
        found.append(
            Table(
                "WAL that is missing",
                (Column("from"), Column("to"), Column("bytes", numeric=True)),
                tuple(
                    (
                        TableCell(str(gap.start)),
                        TableCell(str(gap.end)),
                        TableCell(f"{gap.end - gap.start:,}"),
                    )
                    for gap in wal.gaps
                ),
            )
        )
    return found


def _caption(wal: WalStats) -> str:
    return (
        f"PostgreSQL {wal.version}, {wal.start} to {wal.end}, {say_count(wal.totals.records, 'record')}, "
        f"system identifier {wal.system_identifier}"
    )


def _parts_figure(wal: WalStats, by: By, found: Sequence[Row]) -> tuple[Figure, ...]:
    if by is By.minute or not found:
        return ()
    key, title = _FIRST_COLUMNS[by]
    parts = []
    for row in found[:_BARS_MOST]:
        name = _text(row[key])
        if by is By.fork and row.get("fork") not in (None, "main"):
            name += f" ({row['fork']})"
        parts.append(WalPart(name, _int(row["record_bytes"]), _int(row["image_bytes"])))
    rest = found[_BARS_MOST:]
    if rest:
        parts.append(
            WalPart(
                f"{len(rest)} others",
                sum(_int(row["record_bytes"]) for row in rest),
                sum(_int(row["image_bytes"]) for row in rest),
            )
        )
    data = WalPartsData(title, tuple(parts))
    return (
        Figure(
            "parts",
            f"Which {title} writes the WAL, and how much of it is full-page images?",
            "Bytes in records, without padding and page headers.",
            _caption(wal),
            data.describe(),
            data,
        ),
    )


def _rate_figure(wal: WalStats) -> tuple[Figure, ...]:
    if len(wal.minutes) < 3:
        return ()
    data = WalRateData(
        tuple(
            WalMinute(minute.start_at, minute.totals.record_bytes, minute.totals.image_bytes)
            for minute in wal.minutes
        ),
        tuple(checkpoint.at for checkpoint in wal.checkpoints),
    )
    return (
        Figure(
            "rate",
            "How fast was WAL written, and did checkpoints bring full-page images?",
            f"A bar is {'a minute' if data.bar_min == 1 else f'{data.bar_min} minutes'}, by commit times; "
            "dashed lines: checkpoints began.",
            _caption(wal),
            data.describe(),
            data,
        ),
    )


def _text(value: str | int | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,}" if isinstance(value, int) else value


def _int(value: str | int | None) -> int:
    assert isinstance(value, int), value
    return value
