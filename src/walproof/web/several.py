"""Several runs in one plot, and one question over time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from walproof.analysis.change_points import LEAST, LEVEL, change_points
from walproof.report.blocks import Block, Column, Paragraph, Table, TableCell, text_cells
from walproof.report.figures.figure import Figure
from walproof.report.figures.run_ratios import RunMark, RunPanel, RunRatioData, RunRow
from walproof.report.figures.run_trend import TrendChange, TrendData, TrendPoint
from walproof.report.figures.style import marked, symbol_key
from walproof.report.numbers import percent
from walproof.settings.durability import DurabilityClass
from walproof.units import format_utc
from walproof.web.listed import ListedRun
from walproof.web.summary import Mark

MOST_RUNS = 8
"""The most runs in one plot: as many as there are colours that everybody can tell apart."""
_MOST_TRENDS = 12


def several(chosen: Sequence[ListedRun]) -> list[Block]:
    """The ratios of the runs side by side, then their differences. Empty for fewer than two runs."""
    if len(chosen) < 2:
        return []
    names = run_names(chosen)
    blocks: list[Block] = []
    baselines = sorted({mark.baseline for entry in chosen for mark in _marks(entry)})
    if len(baselines) > 1:
        blocks.append(
            Paragraph(
                f"The runs have different baselines ({', '.join(baselines)}): a ratio has a meaning only "
                "beside ratios to the same baseline, so each baseline has its own rows."
            )
        )
    headings = list(
        dict.fromkeys(entry.summary.heading for entry in chosen if entry.summary and entry.summary.marks)
    )
    for number, heading in enumerate(headings):
        same = [(name, entry) for name, entry in zip(names, chosen, strict=True)
                if entry.summary is not None and entry.summary.heading == heading]  # fmt: skip
        panels = tuple(_panels(same, len(baselines) > 1))
        if panels:
            data = RunRatioData(f"{heading} relative to the baseline (x)", tuple(n for n, _ in same), panels)
            blocks.append(
                Figure(
                    f"several-{number}",
                    "Do the runs agree?",
                    "Each mark is a variant's ratio to the baseline of its own run, with its 95 % interval. "
                    "Intervals of two runs that overlap are no evidence of a difference. "
                    f"Durability: {symbol_key()}.",
                    "; ".join(f"{name}: run {entry.run.id}" for name, entry in same),
                    data.describe(),
                    data,
                )
            )
    return [*blocks, _differences(chosen, names)]


def run_names(chosen: Sequence[ListedRun]) -> list[str]:
    """Names that tell the runs apart: the date, and the version or the machine where they differ."""
    day = [format_utc(entry.run.created_at) for entry in chosen]
    parts = [[text] for text in day]
    for texts in ([f"PostgreSQL {entry.versions}" for entry in chosen], [entry.machine for entry in chosen]):
        if len(set(texts)) > 1:
            for parts_of_name, text in zip(parts, texts, strict=True):
                parts_of_name.append(text)
    names = [", ".join(part for part in parts_of_name if part) for parts_of_name in parts]
    return [
        name if names.count(name) == 1 else f"{name} ({entry.run.id})"
        for name, entry in zip(names, chosen, strict=True)
    ]


def _marks(entry: ListedRun) -> Sequence[Mark]:
    return () if entry.summary is None else entry.summary.marks


def _panels(same: Sequence[tuple[str, ListedRun]], with_baseline: bool) -> Iterator[RunPanel]:
    rows: dict[str, dict[tuple[str, DurabilityClass], list[RunMark]]] = {}
    for name, entry in same:
        assert entry.summary is not None
        for mark in entry.summary.marks:
            install = f", PostgreSQL {mark.install}" if len(entry.run.plan.installs) > 1 else ""
            label = f"{mark.variant} / {mark.baseline}" if with_baseline else mark.variant
            found = RunMark(f"{name}{install}", mark.ratio, mark.low, mark.high, mark.text)
            if install:
                # Each install of a run with several has a separate row.
                label, found = f"{label}{install}", RunMark(name, mark.ratio, mark.low, mark.high, mark.text)
            rows.setdefault(mark.workload, {}).setdefault((label, mark.durability), []).append(found)
    for workload, variants in rows.items():
        ranked = sorted(variants.items(), key=lambda item: item[0][1].rank)
        yield RunPanel(workload, tuple(RunRow(*key, tuple(marks)) for key, marks in ranked))


def _differences(chosen: Sequence[ListedRun], names: Sequence[str]) -> Table:
    facts = [
        {
            "PostgreSQL": entry.versions,
            "walproof": entry.run.walproof_version,
            "rounds": str(entry.extent.rounds),
            "failed trials": str(entry.extent.failed),
            **entry.run.environment.facts,
        }
        for entry in chosen
    ]
    keys = list(dict.fromkeys(key for of_run in facts for key in of_run))
    rows = [
        (TableCell(key), *text_cells([of_run.get(key, "-") for of_run in facts]))
        for key in keys
        if len({of_run.get(key) for of_run in facts}) > 1
    ]
    columns = (Column("what"), *(Column(name) for name in names))
    note = None if rows else "The stored facts of the runs do not differ."
    return Table("Differences between the runs", columns, tuple(rows), note)


def trends(runs: Sequence[ListedRun]) -> list[Block]:
    """A plot of each variant and workload over the dates of its runs; plots with the most runs come first."""
    found: dict[tuple[str, str, str, str], list[TrendPoint]] = {}
    for entry in sorted(runs, key=lambda listed: listed.run.created_at):
        for mark in () if entry.summary is None else entry.summary.marks:
            assert entry.summary is not None
            point = TrendPoint(
                entry.run.created_at, entry.run.id, f"PostgreSQL {mark.install}, {entry.machine}", mark.ratio,
                mark.low, mark.high, mark.text, entry.machine,
            )  # fmt: skip
            variant = marked(mark.variant, mark.durability)
            key = (entry.summary.heading, mark.workload, variant, mark.baseline)
            found.setdefault(key, []).append(point)
    ranked = sorted(found.items(), key=lambda item: -len({point.run for point in item[1]}))
    blocks: list[Block] = []
    rows: list[tuple[TableCell, ...]] = []
    for number, ((heading, workload, variant, baseline), points) in enumerate(ranked[:_MOST_TRENDS]):
        count = len({point.run for point in points})
        if count < 2:
            continue
        changes = _changes(points)
        rows += [
            text_cells(
                (
                    f"{variant}, {workload}",
                    where,
                    format_utc(change.after),
                    format_utc(change.before),
                    change.text,
                )
            )
            for where, change in changes
        ]
        data = TrendData(
            f"{heading} / {baseline} (x)", tuple(points), tuple(change for _, change in changes)
        )  # fmt: skip
        blocks.append(
            Figure(
                f"trend-{number}",
                f"{variant}, {workload}: has it changed?",
                "A mark is a run, with its 95 % interval. Dotted lines: the level changed between the "
                f"runs on both sides, by this much. Durability: {symbol_key()}.",
                f"{count} runs",
                data.describe(),
                data,
            )
        )
    if not blocks:
        return blocks
    columns = (
        Column("of"), Column("where"), Column("last run before"), Column("first run after"),
        Column("the ratio changed by", numeric=True),
    )  # fmt: skip
    note = (
        f"Changes are looked for in each plot with {LEAST} runs or more of one machine, or of one version "
        "there where a run measures several: the largest step is compared with those of the same runs in "
        f"random order, at {percent(LEVEL)}. Sizes are of the mean "
        "ratio, with 95 % intervals; because large steps are chosen, the sizes are a little too large. What "
        "changed meanwhile (a version, a kernel, the machine) is in the reports of the two runs."
    )
    blocks.append(
        Table("Changes", columns, tuple(rows), note)
        if rows
        else Paragraph(f"No change of the level was found. {note}")
    )
    return blocks


def _changes(points: Sequence[TrendPoint]) -> list[tuple[str, TrendChange]]:
    """(where, change), for each series by itself. Points are in order of time."""
    found = []
    for where, series in _series(points):
        for change in change_points([math.log(point.ratio) for point in series]):
            size = [math.expm1(log) for log in (change.difference, change.interval.low, change.interval.high)]
            middle, low, high = (f"{100 * share:+.1f} %" for share in size)
            before, after = series[change.place - 1], series[change.place]
            found.append((where, TrendChange(before.at, after.at, f"{middle} ({low} to {high})")))
    return found


def _series(points: Sequence[TrendPoint]) -> Iterator[tuple[str, list[TrendPoint]]]:
    """The points of each machine, one of each run; versions may differ from run to run.

    Versions that one run measures share whatever was odd about it, so each of them is a series.
    """
    for machine in dict.fromkeys(point.machine for point in points):
        of_machine = [point for point in points if point.machine == machine]
        if len({point.run for point in of_machine}) == len(of_machine):
            yield machine, of_machine
            continue
        for where in dict.fromkeys(point.where for point in of_machine):
            yield where, [point for point in of_machine if point.where == where]
