"""The figures that explain a throughput: each with its question, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.crashes import PredictedCrash
from walproof.analysis.summary import Analysis
from walproof.facts import Plan, Series, Trial
from walproof.report.cells import Cells
from walproof.report.figures.figure import Figure
from walproof.report.figures.style import symbol_key
from walproof.report.kinds.throughput.course import course
from walproof.report.kinds.throughput.crashes import away_data, written_data
from walproof.report.kinds.throughput.latency import latencies
from walproof.report.kinds.throughput.seconds import seconds
from walproof.report.kinds.throughput.volume import writer_data
from walproof.report.kinds.throughput.waits import wait_shares
from walproof.report.layout import FigureMaker


def waits_figure(make: FigureMaker, cells: Cells) -> tuple[Figure, ...]:
    """Shares of waits."""
    return make.figure(
        "waits",
        "What do active backends wait for?",
        f"Numbers in a bar are percent. Durability class: {symbol_key()}.",
        wait_shares(cells),
    )


def latency_figure(make: FigureMaker, cells: Cells) -> tuple[Figure, ...]:
    """Quantiles of latency."""
    return make.figure(
        "latency",
        "How long does a transaction take?",
        f"Hollow: a trial; filled: the median over trials. Durability class: {symbol_key()}.",
        latencies(cells),
    )


def seconds_figure(make: FigureMaker, cells: Cells, series: Sequence[Series]) -> tuple[Figure, ...]:
    """Throughput second by second."""
    return make.figure(
        "seconds",
        "How even is throughput within a window?",
        "Line: median over trials; band: lowest to highest. Each panel has its own axis from 0. "
        "Colour and second line: durability class.",
        seconds(cells, series),
    )


def course_figure(
    make: FigureMaker, cells: Cells, trials: Sequence[Trial], analysis: Analysis
) -> tuple[Figure, ...]:
    """Trials in the order in which they ran."""
    over_time = course(cells, trials, analysis)
    return make.figure(
        "course",
        "Did the machine change during the run?",
        f"{_say_point(cells.plan)}{over_time.note if over_time else ''}",
        over_time,
    )


def _say_point(plan: Plan) -> str:
    """What a point stands for: the caption counts trials, and a start is one trial of several variants."""
    if not plan.has_slices:
        return "A point is a trial."
    slices = f"the slices of one {plan.turning or 'variant'} in one start"
    if plan.slices_all:
        return f"A point stands for {slices}."
    return f"A point stands for a trial, or for {slices}."


def writers_figure(make: FigureMaker, cells: Cells) -> tuple[Figure, ...]:
    """Bytes written, by process."""
    return make.figure(
        "writers",
        "Does compression write less, or only through another process?",
        "A bar is a trial. Its length is the total; colours are who wrote.",
        writer_data(cells),
    )


def away_figure(make: FigureMaker, cells: Cells, crashes: Sequence[PredictedCrash]) -> tuple[Figure, ...]:
    """Time away after crashes, beside what was predicted."""
    baseline = cells.plan.baseline
    predicted = f" Cross: what the WAL and the crash of {baseline} alone predict." if crashes else ""
    return make.figure(
        "away",
        "How long is each variant's server away after it was killed?",
        f"A point is a crash; diamond: the median. Durability class: {symbol_key()}.{predicted}",
        away_data(cells, crashes),
    )


def written_figure(make: FigureMaker, cells: Cells) -> tuple[Figure, ...]:
    """WAL of crashed loads, beside what was predicted."""
    return make.figure(
        "written",
        "How much WAL does the same load write under each variant?",
        "A circle is a trial; diamond: the median; cross: predicted from the WAL of "
        f"{cells.plan.baseline} alone.",
        written_data(cells),
    )
