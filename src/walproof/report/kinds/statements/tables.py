"""The report on statements measured one by one: who counts what, and why the counts differ."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from walproof.analysis.statements import METHODS, REASONS, OperationBytes, Reconciliation, reconcile
from walproof.analysis.summary import Analysis
from walproof.facts import Cell
from walproof.report.answer import Answer
from walproof.report.blocks import (
    Block,
    Column,
    Paragraph,
    Section,
    Table,
    TableCell,
    text_cells,
    without_empty_columns,
)
from walproof.report.cells import Cells
from walproof.report.numbers import UNKNOWN, number, percent, ratio, whole
from walproof.report.published import say_source
from walproof.report.variants import VARIANT_COLUMNS, variant_cells

_COUNTS = {
    "lsn": "LSN distance",
    "decoded": "records in the WAL",
    "statements": "pg_stat_statements",
    "explain": "EXPLAIN (WAL)",
    "backend": "pg_stat_get_backend_wal",
    "stat": "pg_stat_wal",
}
_SINCE = (
    (140000, "pg_stat_wal came with PostgreSQL 14"),
    (180000, "pg_stat_get_backend_wal came with PostgreSQL 18"),
)


def statement_answers(cells: Cells, analysis: Analysis) -> tuple[Answer, ...]:
    """Per workload: what each variant writes, relative to the baseline, and why the counts differ."""
    found = []
    for install, workload in cells.groups():
        sentences = []
        for variant in cells.variants():
            cell = Cell(install, workload, variant.name)
            total = cells.median(cell, "wal_bytes_decoded")
            effect = analysis.effect(*cell)
            if total is None:
                sentences.append(f"{variant.name}: no trial finished.")
            elif effect is None:
                sentences.append(f"{variant.name} writes {total:,.0f} bytes of records.")
            else:
                sentences.append(
                    f"{variant.name} writes {total:,.0f} bytes, {ratio(effect.ratio, effect.interval)} of "
                    f"{cells.plan.baseline}."
                )
        known = _reconciled(cells, install, workload)
        if known:
            exact = sum(reconciled.adds_up for reconciled in known)
            named = [gap for reconciled in known if (gap := reconciled.gap("statements")) is not None]
            sentences.append(
                f"The LSN distance is accounted for to the byte in {exact} of {len(known)} measurements."
            )
            if named:
                closed = sum(gap.unexplained_bytes == 0 for gap in named)
                sentences.append(
                    f"What pg_stat_statements does not count is named, to the byte, in {closed} of "
                    f"{len(named)}."
                )
        found.append(Answer(cells.group_title(install, workload), tuple(sentences)))
    return tuple(found)


def statement_sections(cells: Cells, analysis: Analysis) -> tuple[Section, ...]:
    """Tables in the order of the questions."""
    return (
        Section("levels", "What each variant writes", tuple(_levels(cells))),
        Section("methods", "Who counts what", (*_methods(cells), *_missing(cells))),
        Section("gaps", "Why the counts differ", tuple(_gaps(cells))),
        Section("rmgrs", "By resource manager", tuple(_rmgrs(cells))),
        Section("published", "Beside the published figures", tuple(_published(cells))),
        Section("spread", "What varies between rounds", tuple(_spread(cells, analysis))),
    )


def _reconciled(cells: Cells, install: str, workload: str) -> list[Reconciliation]:
    found = []
    for variant in cells.variants():
        for trial in cells.finished(Cell(install, workload, variant.name)):
            for statement in cells.plan.workload(workload).statements:
                reconciled = reconcile(trial, statement.name)
                if reconciled is not None:
                    found.append(reconciled)
    return found


def _names(cells: Cells, workload: str) -> list[tuple[str, str]]:
    """(label, suffix of the metric) of each statement, and of all of them together."""
    return [
        (statement.name, f".{statement.name}") for statement in cells.plan.workload(workload).statements
    ] + [("all together", "")]


def _levels(cells: Cells) -> list[Block]:
    blocks: list[Block] = []
    base = cells.plan.baseline
    others = [variant.name for variant in cells.variants() if variant.name != base]
    for install, workload in cells.groups():
        rows = []
        for label, suffix in _names(cells, workload):
            values = {
                variant.name: cells.median(
                    Cell(install, workload, variant.name), f"wal_bytes_decoded{suffix}"
                )
                for variant in cells.variants()
            }
            reference = values[base]
            shares = [
                UNKNOWN
                if values[name] is None or not reference
                else f"{number((values[name] or 0) / reference)}x"
                for name in others
            ]
            rows.append(text_cells([label, *(whole(value) for value in values.values()), *shares]))
        columns = (
            Column("statement", whole_most=28),
            *(Column(f"{v.name} [{v.durability.value}]", numeric=True) for v in cells.variants()),
            *(Column(f"{name} / {base}", numeric=True) for name in others),
        )
        blocks.append(
            Table(
                f"Bytes of WAL records: {cells.group_title(install, workload)}",
                columns,
                tuple(rows),
                "Decoded from the WAL, commit included; medians over rounds. Durability class in brackets.",
            )
        )
    return blocks


def _methods(cells: Cells) -> list[Block]:
    blocks: list[Block] = []
    for install, workload in cells.groups():
        for variant in cells.variants():
            cell = Cell(install, workload, variant.name)
            rows = [
                text_cells([label, *(cells.shown(cell, f"wal_bytes_{m}{suffix}") for m in _COUNTS)])
                for label, suffix in _names(cells, workload)
            ]
            table = Table(
                f"{cells.group_title(install, workload)}, {variant.name} ({variant.durability.value})",
                (
                    Column("statement", whole_most=28),
                    *(Column(title, numeric=True) for title in _COUNTS.values()),
                ),
                tuple(rows),
                "Bytes, medians over rounds.",
            )
            blocks.append(without_empty_columns(table))
    return blocks


def _missing(cells: Cells) -> list[Block]:
    sentences = []
    for install in cells.plan.installs:
        of_install = [cell for cell in cells.plan.cells if cell.install == install.label]
        if not any(cells.finished(cell) for cell in of_install):
            continue  # nothing was counted at all
        reasons = [reason for since, reason in _SINCE if install.version_num < since]
        if all(cells.median(cell, "wal_bytes_statements") is None for cell in of_install):
            reasons.insert(0, "pg_stat_statements is not installed, or the server did not load it")
        sentences += [f"PostgreSQL {install.label}: {reason}." for reason in reasons]
    return [Paragraph(" ".join(sentences), terminal=True)] if sentences else []


def _gaps(cells: Cells) -> list[Block]:
    blocks: list[Block] = []
    used: set[str] = set()
    for install, workload in cells.groups():
        for variant in cells.variants():
            trials = cells.finished(Cell(install, workload, variant.name))
            if not trials:
                continue
            rows = []
            for statement in cells.plan.workload(workload).statements:
                reconciled = reconcile(trials[0], statement.name)
                if reconciled is None:
                    continue
                gap = next((g for m in METHODS if (g := reconciled.gap(m)) is not None), None)
                used.update(o.operation for g in reconciled.gaps for o in g.outside)
                rows.append(
                    text_cells(
                        [
                            reconciled.statement,
                            whole(reconciled.lsn_bytes),
                            whole(reconciled.padding_bytes),
                            whole(reconciled.header_bytes + reconciled.switch_bytes),
                            whole(reconciled.record_bytes),
                            UNKNOWN if gap is None else f"{_COUNTS[gap.method]} {gap.bytes:,}",
                            UNKNOWN if gap is None else _say_outside(gap.outside),
                            UNKNOWN if gap is None else whole(gap.unexplained_bytes),
                        ]
                    )
                )
            blocks.append(
                Table(
                    f"{cells.group_title(install, workload)}, {variant.name} ({variant.durability.value})",
                    (
                        Column("statement", whole_most=28),
                        Column("LSN distance", numeric=True),
                        Column("= padding", numeric=True),
                        Column("+ headers", numeric=True),
                        Column("+ records", numeric=True),
                        Column("records = counted by", terminal=False),
                        Column("+ not counted"),
                        Column("not explained", numeric=True),
                    ),
                    tuple(rows),
                    "First round. Bytes; operations with their records and bytes.",
                )
            )
    if used:
        said = "; ".join(f"{name}: {REASONS[name]}" for name in sorted(used))
        blocks.append(Paragraph(f"Why some records belong to no statement. {said}.", terminal=True))
    blocks.append(
        Paragraph(
            "Counters of the server add up record lengths (xl_tot_len), never padding or page headers, so "
            "the LSN distance is always larger. pg_stat_wal holds what every process has reported so far; "
            "the background writer and others report late, so it may be ahead or behind.",
            terminal=True,
        )
    )
    return blocks


def _say_outside(outside: Sequence[OperationBytes]) -> str:
    said = [
        f"{operation.operation} {operation.bytes:,}"
        + (f" ({operation.records})" if operation.records > 1 else "")
        for operation in outside
    ]
    return ", ".join(said) or "nothing"


def _rmgrs(cells: Cells) -> list[Block]:
    blocks: list[Block] = []
    for install, workload in cells.groups():
        sums: dict[str, dict[str, float]] = {}
        for variant in cells.variants():
            per_trial: dict[str, list[float]] = {}
            trials = cells.finished(Cell(install, workload, variant.name))
            for place, trial in enumerate(trials):
                for name, value in trial.metrics.items():
                    if name.startswith("wal_operation_bytes."):
                        rmgr = name.rsplit("|", 1)[1].split("/")[0]
                        per_trial.setdefault(rmgr, [0.0] * len(trials))[place] += value
            for rmgr, values in per_trial.items():
                sums.setdefault(rmgr, {})[variant.name] = median(values)
        names = [variant.name for variant in cells.variants()]
        ordered = sorted(sums, key=lambda rmgr: -max(sums[rmgr].values()))
        rows = tuple(
            text_cells([rmgr, *(whole(sums[rmgr].get(name, 0.0)) for name in names)]) for rmgr in ordered
        )
        if rows:
            blocks.append(
                Table(
                    cells.group_title(install, workload),
                    (
                        Column("resource manager"),
                        *(Column(f"{v.name} [{v.durability.value}]", numeric=True) for v in cells.variants()),
                    ),
                    rows,
                    "Bytes of all statements, images included; medians over rounds.",
                )
            )
    return blocks


def _published(cells: Cells) -> list[Block]:
    plan = cells.plan
    blocks: list[Block] = []
    for install, workload in cells.groups():
        theirs = {r.variant: r.metrics for r in plan.references_of(workload) if r.metrics}
        if not theirs:
            continue
        rows = []
        for variant in cells.variants():
            published = theirs.get(variant.name, {})
            for metric, value in published.items():
                quantity, _, statement = metric.partition(".")
                method = _COUNTS.get(quantity.removeprefix("wal_bytes_"), quantity)
                here = cells.median(Cell(install, workload, variant.name), metric)
                rows.append(
                    (
                        *variant_cells(variant),
                        TableCell(statement or "all together"),
                        TableCell(method),
                        TableCell(whole(value)),
                        TableCell(whole(here)),
                        TableCell(UNKNOWN if here is None or not value else f"{number(here / value)}x"),
                    )
                )
        blocks.append(
            Table(
                f"Bytes published and here: {cells.group_title(install, workload)}",
                (
                    *VARIANT_COLUMNS,
                    Column("statement", whole_most=28),
                    Column("counted by"),
                    Column("published", numeric=True),
                    Column("here", numeric=True),
                    Column("here / published", numeric=True),
                ),
                tuple(rows),
                say_source(plan),
            )
        )
    if blocks:
        blocks.append(
            Paragraph(
                "Rows cost the same bytes everywhere. Catalog changes differ with the version and with what "
                "the catalogs already hold. Under minimal, the pages of a relation made in the "
                "transaction are written as full-page images at commit (XLOG/FPI, 16,384 bytes in the "
                "published run) instead of syncing its files, which is why minimal seems to write most."
            )
        )
    return blocks


def _spread(cells: Cells, analysis: Analysis) -> list[Block]:
    if analysis.rounds < 2:
        return [Paragraph("One round only: nothing is known about the spread.", terminal=True)]
    varying = []
    for install, workload in cells.groups():
        for statement in cells.plan.workload(workload).statements:
            for variant in cells.variants():
                cell = Cell(install, workload, variant.name)
                values = cells.values(cell, f"wal_bytes_decoded.{statement.name}")
                if values and max(values) > min(values):
                    varying.append(
                        text_cells(
                            [
                                cells.group_title(install, workload),
                                statement.name,
                                variant.name,
                                whole(min(values)),
                                whole(max(values)),
                                percent((max(values) - min(values)) / max(values)),
                            ]
                        )
                    )
    if not varying:
        return [Paragraph("Every statement wrote the same bytes in every round.", terminal=True)]
    columns = (
        Column("workload"),
        Column("statement", whole_most=28),
        Column("variant"),
        Column("least", numeric=True),
        Column("most", numeric=True),
        Column("difference", numeric=True),
    )
    note = (
        "All others wrote the same bytes in every round. Random keys fall on different index pages, and a "
        "full page is pruned when it is read: such statements vary a little."
    )
    return [Table("Statements whose bytes vary", columns, tuple(varying), note, terminal=False)]
