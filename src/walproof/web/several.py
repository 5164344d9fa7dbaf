"""Several runs in one plot, and one question over dates."""

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
from walproof.web.listed import Listed
from walproof.web.summary import Mark

MOST_RUNS = 8
"""In one plot: as many as there are colours that everybody can tell apart."""
_MOST_TRENDS = 12


def several(chosen: Sequence[Listed]) -> list[Block]:
    """The ratios of the runs side by side, then what they differ in. Empty for fewer than two."""
    if len(chosen) < 2:
        return []
    names = run_names(chosen)
    blocks: list[Block] = []
    baselines = sorted({mark.baseline for one in chosen for mark in _marks(one)})
    if len(baselines) > 1:
        blocks.append(
            Paragraph(
                f"The runs have different baselines ({', '.join(baselines)}): a ratio says something only "
                "beside ratios to the same one, so each baseline has its own rows."
            )
        )
    headings = list(dict.fromkeys(one.summary.heading for one in chosen if one.summary and one.summary.marks))
    for number, heading in enumerate(headings):
        same = [(name, one) for name, one in zip(names, chosen, strict=True)
                if one.summary is not None and one.summary.heading == heading]  # fmt: skip
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
                    "; ".join(f"{name}: run {one.run.id}" for name, one in same),
                    data.describe(),
                    data,
                )
            )
    return [*blocks, _differences(chosen, names)]


def run_names(chosen: Sequence[Listed]) -> list[str]:
    """What tells the runs apart: date, and version or machine where they differ."""
    day = [format_utc(one.run.created_at) for one in chosen]
    parts = [[text] for text in day]
    for texts in ([f"PostgreSQL {one.versions}" for one in chosen], [one.machine for one in chosen]):
        if len(set(texts)) > 1:
            for own, text in zip(parts, texts, strict=True):
                own.append(text)
    names = [", ".join(part for part in own if part) for own in parts]
    return [
        name if names.count(name) == 1 else f"{name} ({one.run.id})"
        for name, one in zip(names, chosen, strict=True)
    ]


def _marks(one: Listed) -> Sequence[Mark]:
    return () if one.summary is None else one.summary.marks


def _panels(same: Sequence[tuple[str, Listed]], with_baseline: bool) -> Iterator[RunPanel]:
    rows: dict[str, dict[tuple[str, DurabilityClass], list[RunMark]]] = {}
    for name, one in same:
        assert one.summary is not None
        for mark in one.summary.marks:
            install = f", PostgreSQL {mark.install}" if len(one.run.plan.installs) > 1 else ""
            label = f"{mark.variant} / {mark.baseline}" if with_baseline else mark.variant
            found = RunMark(f"{name}{install}", mark.ratio, mark.low, mark.high, mark.text)
            if install:
                # Of a run with several installs each has a row of its own.
                label, found = f"{label}{install}", RunMark(name, mark.ratio, mark.low, mark.high, mark.text)
            rows.setdefault(mark.workload, {}).setdefault((label, mark.durability), []).append(found)
    for workload, variants in rows.items():
        ranked = sorted(variants.items(), key=lambda item: item[0][1].rank)
        yield RunPanel(workload, tuple(RunRow(*key, tuple(marks)) for key, marks in ranked))


def _differences(chosen: Sequence[Listed], names: Sequence[str]) -> Table:
    facts = [
        {
            "PostgreSQL": one.versions,
            "walproof": one.run.walproof_version,
            "rounds": str(one.extent.rounds),
            "failed trials": str(one.extent.failed),
            **one.run.environment.facts,
        }
        for one in chosen
    ]
    keys = list(dict.fromkeys(key for own in facts for key in own))
    rows = [
        (TableCell(key), *text_cells([own.get(key, "-") for own in facts]))
        for key in keys
        if len({own.get(key) for own in facts}) > 1
    ]
    columns = (Column("what"), *(Column(name) for name in names))
    note = None if rows else "Nothing that was stored of the runs differs."
    return Table("What the runs differ in", columns, tuple(rows), note)


def trends(runs: Sequence[Listed]) -> list[Block]:
    """A plot of each variant and workload over the dates of its runs, those with most runs first."""
    found: dict[tuple[str, str, str, str], list[TrendPoint]] = {}
    for one in sorted(runs, key=lambda each: each.run.created_at):
        for mark in () if one.summary is None else one.summary.marks:
            assert one.summary is not None
            point = TrendPoint(
                one.run.created_at, one.run.id, f"PostgreSQL {mark.install}, {one.machine}", mark.ratio,
                mark.low, mark.high, mark.text, one.machine,
            )  # fmt: skip
            variant = marked(mark.variant, mark.durability)
            key = (one.summary.heading, mark.workload, variant, mark.baseline)
            found.setdefault(key, []).append(point)
    ranked = sorted(found.items(), key=lambda item: -len(item[1]))
    blocks: list[Block] = []
    rows: list[tuple[TableCell, ...]] = []
    for number, ((heading, workload, variant, baseline), points) in enumerate(ranked[:_MOST_TRENDS]):
        if len(points) < 2:
            continue
        changes = _changes(points)
        rows += [
            text_cells(
                (f"{variant}, {workload}", where, format_utc(one.after), format_utc(one.before), one.text)
            )
            for where, one in changes
        ]
        data = TrendData(
            f"{heading} / {baseline} (x)", tuple(points), tuple(one for _, one in changes)
        )  # fmt: skip
        blocks.append(
            Figure(
                f"trend-{number}",
                f"{variant}, {workload}: has it changed?",
                "A mark is a run, with its 95 % interval. Dotted lines: the level has changed between "
                f"the runs on both sides, by so much. Durability: {symbol_key()}.",
                f"{len(points)} runs",
                data.describe(),
                data,
            )
        )
    if not blocks:
        return blocks
    columns = (
        Column("of"), Column("machine"), Column("last run before"), Column("first run after"),
        Column("the ratio changed by", numeric=True),
    )  # fmt: skip
    note = (
        f"Looked for in each plot with {LEAST} runs or more of one machine: the largest step is held against "
        f"those of the same runs in random order, at {percent(LEVEL)}. Sizes are of the mean ratio, with "
        "95 % intervals; chosen because they are large, they are a little too large. What changed meanwhile "
        "(a version, a kernel, the machine) is in the reports of the two runs."
    )
    blocks.append(
        Table("Changes", columns, tuple(rows), note)
        if rows
        else Paragraph(f"No change of the level was found. {note}")
    )
    return blocks


def _changes(points: Sequence[TrendPoint]) -> list[tuple[str, TrendChange]]:
    """(machine, change), each machine by itself, whose versions may differ. Points come in order of time."""
    found = []
    for machine in dict.fromkeys(one.machine for one in points):
        own = [one for one in points if one.machine == machine]
        for change in change_points([math.log(one.ratio) for one in own]):
            size = [math.expm1(log) for log in (change.difference, change.interval.low, change.interval.high)]
            middle, low, high = (f"{100 * one:+.1f} %" for one in size)
            before, after = own[change.place - 1], own[change.place]
            found.append((machine, TrendChange(before.at, after.at, f"{middle} ({low} to {high})")))
    return found
