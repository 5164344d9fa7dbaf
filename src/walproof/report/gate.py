"""The gate in a report, and as the short page that a forge shows beside a build."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from walproof.advise.gate import say_answer, subject
from walproof.analysis.gate import Judgement, Outcome
from walproof.facts import Run, Trial
from walproof.report.answer import Answer
from walproof.report.blocks import Block, Column, Paragraph, Section, Table, text_cells
from walproof.report.figures.figure import Figure
from walproof.report.numbers import percent, ratio
from walproof.sentences import say_count
from walproof.units import format_duration

if TYPE_CHECKING:
    from walproof.report.layout import ReportView

_SYMBOLS = {Outcome.HOLDS: "✔", Outcome.BROKEN: "✘", Outcome.UNDECIDED: "?"}


def gate_answers(run: Run, found: Judgement | None) -> tuple[Answer, ...]:
    """The outcome, which comes before every other answer."""
    return () if found is None else (Answer("The gate", say_answer(run.plan, found)),)


def gate_section(run: Run, trials: Sequence[Trial], found: Judgement | None, *figures: Figure) -> Section:
    """Every promise with what was measured, and how sure its outcome is."""
    return Section("gate", "The gate", () if found is None else (*figures, *_blocks(run, trials, found)))


def headline(found: Judgement) -> str:
    """``The gate is broken``."""
    words = {
        Outcome.HOLDS: "holds",
        Outcome.BROKEN: "is broken",
        Outcome.UNDECIDED: "is undecided",
    }
    return f"The gate {words[found.outcome]}"


def summary(view: ReportView) -> str:
    """Markdown for a forge: outcome, table, and what it was measured on."""
    from walproof.report.markdown import sections_to_markdown

    assert view.gate is not None
    section = gate_section(view.run, view.trials, view.gate)
    lines = tuple(Paragraph(line) for line in say_answer(view.run.plan, view.gate))
    page = Section("gate", view.question, (*lines, *section.blocks))
    title = f"walproof: {headline(view.gate)[:1].lower()}{headline(view.gate)[1:]}"
    return sections_to_markdown(title, view.dateline, (page,)) + "\n"


def _blocks(run: Run, trials: Sequence[Trial], found: Judgement) -> tuple[Block, ...]:
    plan = run.plan
    noun = "start" if plan.slices_all else "round"
    rows = tuple(
        text_cells(
            (
                judged.promise.text,
                subject(plan, judged),
                ratio(judged.ratio, judged.interval),
                judged.promise.limit_text,
                f"{_SYMBOLS[judged.outcome]} {judged.outcome.value}",
                str(judged.rounds),
            )
        )
        for judged in found.judged
    )
    columns = (
        Column("fails if"),
        Column("compared"),
        Column("ratio", numeric=True, whole_most=30),
        Column("limit", numeric=True, terminal=False),
        Column("outcome"),
        Column(f"{noun}s", numeric=True),
    )
    spent = sum(trial.ended_at - trial.started_at for trial in trials)
    looked = sum(at <= found.done for at in found.looks)
    times = "once," if looked == 1 else f"{looked} times, the last time"
    decided = (
        f"Looked {times} after {say_count(found.done, noun)} ({format_duration(spent)} of measuring). "
        if found.done
        else ""
    )
    comparisons = len(found.judged)
    note = (
        f"{decided}Intervals hold over all looks"
        + (f" and all {comparisons} comparisons together" if comparisons > 1 else "")
        + f": at most {percent(found.false_rate)} of gates whose ratios keep all limits are called broken. "
        "A promise is broken, or holds, when its whole interval is on that side of the limit."
    )
    reasons = [
        Paragraph(
            f"{judged.promise.text}, {subject(plan, judged)}: {judged.outcome.value}, {judged.reason}.",
            terminal=True,
        )
        for judged in found.judged
        if judged.reason is not None
    ]
    return (Table(headline(found), columns, rows, note), *reasons)
