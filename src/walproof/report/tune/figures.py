"""The figures of a tuning: each line's gain, and the race, as points behind intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from walproof.advise.tune.answer import TuneAnswer
from walproof.analysis.interval import Interval
from walproof.analysis.tuning.blocks import Blocks
from walproof.analysis.tuning.values import objective_values
from walproof.facts.tuning import DEFAULT, TuningFacts
from walproof.facts.tuning_answers import candidate_name
from walproof.report.blocks import Column, Table, class_cell, text_cells
from walproof.report.figures.figure import Figure
from walproof.report.figures.ratios import RatioPanel, RatioPoint, RatioRow, ratio_data
from walproof.report.numbers import ratio
from walproof.settings.durability import DurabilityClass
from walproof.settings.risk import durability_class

_SHOWN_MOST = 24


def line_figure(answer: TuneAnswer, facts: TuningFacts) -> Figure | None:
    """The gain of each line; None if no line was measured."""
    rows = [
        _row(
            f"{costs.line.setting} = {costs.line.value}",
            costs.durability,
            costs.line.gain,
            costs.line.interval,
            costs.line.rounds,
        )
        for costs in answer.lines
        if costs.line.gain is not None
    ]
    data = ratio_data(
        "with the line, relative to without it (x, above 1 is better)", [RatioPanel("Lines", tuple(rows))]
    )
    if data is None:
        return None
    return Figure(
        "tune-lines",
        "What does each line give?",
        "Points: one per round. Diamond and bar: the mean and its interval; a bar across 1x proves nothing.",
        _caption(facts),
        data.describe(),
        data,
    )


def race_blocks(facts: TuningFacts, base: Mapping[str, str] | None = None) -> tuple[Figure | Table, ...]:
    """Every configuration beside the defaults, the best first: a figure, and a table with whole names.

    Empty if nothing was measured. ``base``: settings of every configuration besides those of the plan.
    """
    values = objective_values(facts)
    blocks = Blocks(values)
    estimates = {candidate: blocks.estimate(candidate, DEFAULT) for candidate in values.candidates}
    found = {candidate: estimate for candidate, estimate in estimates.items() if estimate is not None}
    if not found:
        return ()
    rows, named = [], []
    for number, candidate in enumerate(sorted(found, key=lambda candidate: -found[candidate].mean), 1):
        points = tuple(math.exp(log) for log in blocks.ratios(candidate, DEFAULT).values())
        risk = durability_class({**(base or {}), **facts.plan.keep, **candidate.conf})
        mean, interval = math.exp(found[candidate].mean), found[candidate].interval()
        rows.append(_row(f"{number}. {candidate_name(candidate)}", risk, mean, interval, points))
        count = str(len(points))
        named.append(
            (
                *text_cells((str(number), candidate_name(candidate), ratio(mean, interval), count)),
                class_cell(risk),
            )
        )
    data = ratio_data("relative to the defaults (x, above 1 is better)", [_panel(rows[:_SHOWN_MOST])])
    if data is None:
        return ()
    note = (
        "Every trial of every step. Candidates that never ran beside the defaults are compared by way of "
        "others, with which both shared rounds. The first of many with few trials is usually a lucky one: "
        "what is advised was measured anew."
    )
    if len(found) > _SHOWN_MOST:
        note += f" The best {_SHOWN_MOST} of {len(found)}."
    question = "Which configurations were tried?"
    figure = Figure("tune-race", question, note, _caption(facts), data.describe(), data)
    columns = (
        Column("no.", numeric=True), Column("configuration", whole_most=200),
        Column("relative to the defaults", numeric=True), Column("rounds", numeric=True),
        Column("a crash may cost"),
    )  # fmt: skip
    return figure, Table("Configurations in full", columns, tuple(named), terminal=False)


def _panel(rows: Sequence[RatioRow]) -> RatioPanel:
    ordered = sorted(rows, key=lambda row: row.durability.rank if row.durability else 0)
    return RatioPanel("Configurations", tuple(ordered))


def _row(
    label: str, durability: DurabilityClass, mean: float, interval: Interval | None, rounds: Sequence[float]
) -> RatioRow:
    points = tuple(RatioPoint(number, number, value, False) for number, value in enumerate(rounds, 1))
    return RatioRow(label, durability, mean, interval, points, f"{ratio(mean, interval)}, n = {len(rounds)}")


def _caption(facts: TuningFacts) -> str:
    failed = sum(trial.value is None for trial in facts.measured)
    left_out = f", {failed} failed" if failed else ""
    return f"{len(facts.measured)} measurements{left_out}, seed {facts.plan.seed}."
