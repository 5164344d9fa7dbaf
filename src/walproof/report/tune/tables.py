"""The tables of a tuning's report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from walproof.advise.tune.answer import TuneAnswer
from walproof.advise.tune.crashes import CrashCheck
from walproof.advise.tune.space import NotMoved
from walproof.analysis.tuning.blocks import Blocks
from walproof.analysis.tuning.race import replay
from walproof.analysis.tuning.values import objective_values
from walproof.facts.tuning import DEFAULT, Candidate, Purpose, TuningFacts
from walproof.facts.tuning_answers import candidate_name
from walproof.report.blocks import Column, Table, TableCell, class_cell, text_cells
from walproof.report.numbers import UNKNOWN, percent, ratio, size
from walproof.report.tune.names import gained, verdict_words
from walproof.units import format_duration


def line_table(answer: TuneAnswer) -> Table:
    """Each line of the winner: verdict, gain, costs, durability class.

    Where the advised lines were not measured one by one, their gains are those within the winner, too.
    """
    takes_memory = any(costs.memory_bytes[0] != costs.memory_bytes[1] for costs in answer.lines)
    columns = (
        Column("line", whole_most=44),
        Column("verdict"),
        Column("gain with it", numeric=True),
        Column("alone", numeric=True, terminal=False),
        Column("WAL per transaction", numeric=True),
        Column("longest time away", numeric=True),
        Column("memory", numeric=True, terminal=takes_memory),
        Column("a crash may cost"),
    )
    rows = []
    for costs in answer.lines:
        had, without = costs.memory_bytes
        line = costs.line
        rows.append(
            (
                TableCell(f"{line.setting} = {line.value}"),
                TableCell(verdict_words(line)),
                TableCell(gained(line.gain, line.interval, len(line.rounds))),
                TableCell(ratio(line.alone, line.alone_interval)),
                TableCell(_change(costs.had.wal_bytes_per_txn, costs.without.wal_bytes_per_txn)),
                TableCell(_seconds_change(costs.had.recovery_s, costs.without.recovery_s)),
                TableCell("as without" if had == without else f"{size(without)} -> {size(had)}"),
                class_cell(costs.durability),
            )
        )
    note = (
        "Gain: what is advised relative to it without the line (a line that is out: the winner, the longer "
        "configuration that the lines come from), in the same rounds; above 1x is better. WAL and time away, "
        "with and without the line, are predicted from the recording. A dash: the gain was not measured; the "
        "recording is shorter than a checkpoint cycle, which a prediction needs."
    )
    return Table("Lines", columns, tuple(rows), note=note)


def _change(had: float | None, without: float | None) -> str:
    if had is None or without is None or not without:
        return UNKNOWN
    share = had / without - 1
    return "as without" if abs(share) < 0.005 else f"{'+' if share > 0 else '-'}{percent(abs(share))}"


def _seconds_change(had: float | None, without: float | None) -> str:
    if had is None or without is None:
        return UNKNOWN
    if abs(had - without) < max(0.1, 0.02 * without):
        return "as without"
    return f"{format_duration(without)} -> {format_duration(had)}"


def prediction_table(answer: TuneAnswer) -> Table:
    """Predictions for the defaults, the user's own configuration and the advised one."""
    columns = (
        Column("configuration", whole_most=60),
        Column("WAL per transaction", numeric=True),
        Column("pg_wal at most", numeric=True),
        Column("longest time away", numeric=True),
        Column("at worst (1 in 20)", numeric=True),
    )
    rows = []
    shown = [("the defaults", answer.default_prediction)]
    if answer.own_prediction is not None:
        shown.append(("your own", answer.own_prediction))
    if answer.conf != DEFAULT:
        shown.append(("advised", answer.prediction))
    faster = answer.at_own_speed
    if faster is not None and faster != answer.prediction:
        shown.append(("advised, at its own speed", faster))
    for name, prediction in shown:
        rows.append(
            text_cells(
                (
                    name,
                    size(prediction.wal_bytes_per_txn),
                    size(prediction.pg_wal_bytes),
                    _seconds(prediction.recovery_s),
                    _seconds(prediction.recovery_high_s),
                )
            )
        )
    return Table("Predicted from the recording", columns, tuple(rows))


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else format_duration(value)


def ruled_out_tables(answer: TuneAnswer) -> tuple[Table, ...]:
    """A table for each limit that ruled something out."""
    found = []
    for ruled_out in answer.ruled_out:
        rows = [
            text_cells((candidate_name(candidate), broken.predicted, broken.allowed))
            for candidate, broken in ruled_out.candidates
        ]
        columns = (
            Column("change", whole_most=44), Column("predicted", whole_most=44),
            Column("allowed", whole_most=60),
        )  # fmt: skip
        found.append(Table(f"Ruled out by: {ruled_out.limit.value}", columns, tuple(rows)))
    return tuple(found)


def not_moved_table(not_moved: Sequence[NotMoved], title: str, *, terminal: bool = False) -> Table:
    """Settings and values that were not searched."""
    rows = [
        text_cells(
            (
                unmoved.setting,
                unmoved.value or "any",
                f"{unmoved.limit.value}: {unmoved.reason}" if unmoved.limit else unmoved.reason,
            )
        )
        for unmoved in not_moved
    ]
    columns = (Column("setting"), Column("value"), Column("why", whole_most=200))
    return Table(title, columns, tuple(rows), terminal=terminal)


def step_table(facts: TuningFacts, runs: Sequence[str | None], seconds: Sequence[float]) -> Table:
    """The steps of the search, with their reasons."""
    columns = (
        Column("step"), Column("for"), Column("candidates", numeric=True), Column("rounds", numeric=True),
        Column("trials", numeric=True, terminal=False), Column("took", numeric=True),
        Column("why", whole_most=200), Column("run", terminal=False),
    )  # fmt: skip
    rows = []
    for step, run, took in zip(facts.steps, runs, seconds, strict=True):
        trials = sum(trial.step == step.number for trial in facts.measured)
        design = " (toggled)" if step.design == "toggled" else ""
        rows.append(
            text_cells(
                (
                    str(step.number), f"{step.purpose.value}{design}", str(len(step.candidates)),
                    str(step.rounds), str(trials), format_duration(took), step.why or "", run or UNKNOWN,
                )
            )
        )  # fmt: skip
    return Table("Steps", columns, tuple(rows))


def crash_table(crashes: Sequence[CrashCheck]) -> Table:
    """Measured and predicted times away."""
    columns = (
        Column("crash"), Column("WAL to replay", numeric=True), Column("back after", numeric=True),
        Column("predicted", numeric=True), Column("at worst (1 in 20)", numeric=True), Column("within"),
    )  # fmt: skip
    rows = []
    for number, crash in enumerate(crashes, 1):
        _, middle, high = crash.predicted_s or (None, None, None)
        within = {True: "yes", False: "no", None: crash.failure or UNKNOWN}[crash.is_within]
        rows.append(
            text_cells(
                (
                    str(number),
                    size(crash.wal_bytes),
                    _seconds(crash.measured_s),
                    _seconds(middle),
                    _seconds(high),
                    within,
                )
            )
        )
    return Table("Crashes", columns, tuple(rows))


def standing_table(facts: TuningFacts) -> Table | None:
    """The race: the incumbent, the candidates that may still beat it, and when the others dropped out."""
    searched = [step for step in facts.steps if step.purpose is Purpose.SEARCH]
    if not searched:
        return None
    left: dict[Candidate, str] = {}
    since, incumbent = searched[0].number, DEFAULT
    for step in searched:
        found = replay(until(facts, step.number))
        if found.incumbent != incumbent:
            since, incumbent = step.number, found.incumbent
        left = {
            candidate: left.get(candidate, f"dropped after step {step.number}") for candidate in found.dropped
        }
    values = objective_values(facts)
    blocks = Blocks(values)
    rounds = Counter(candidate for _, candidate in values.logs)
    # The incumbent may have been measured in the screen alone.
    seen = dict.fromkeys([incumbent, *(candidate for step in searched for candidate in step.candidates)])
    rows = []
    for candidate in sorted(seen, key=lambda each: (each != incumbent, each in left)):
        state = left.get(candidate, "racing")
        if candidate == DEFAULT and facts.is_default_ruled_out:
            state = "breaks a promise"
        elif candidate == incumbent:
            state = "incumbent" if candidate == DEFAULT else f"incumbent since step {since}"
        estimate = blocks.estimate(candidate, DEFAULT)
        mean, interval = (None, None) if estimate is None else (math.exp(estimate.mean), estimate.interval())
        against = "the defaults" if candidate == DEFAULT else ratio(mean, interval)
        rows.append(text_cells((candidate_name(candidate), state, against, str(rounds[candidate]))))
    columns = (
        Column("configuration", whole_most=60), Column("state"),
        Column("relative to the defaults", numeric=True), Column("rounds", numeric=True),
    )  # fmt: skip
    note = (
        "Dropped: the candidate's interval lay below the incumbent, or its server failed. Candidates that "
        "never ran beside the defaults are compared by way of others, with which both shared rounds."
    )
    return Table("Where the race stands", columns, tuple(rows), note)


def until(facts: TuningFacts, step: int) -> TuningFacts:
    """The facts as they were after a step."""
    return replace(
        facts,
        steps=tuple(earlier for earlier in facts.steps if earlier.number <= step),
        measured=tuple(trial for trial in facts.measured if trial.step <= step),
    )
