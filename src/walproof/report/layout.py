"""The frame of every report: what stands before and after the part that differs by kind of study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from walproof.advise.finding import Finding
from walproof.advise.gate import say_help
from walproof.analysis.gate import Judgement, judge
from walproof.analysis.summary import Analysis
from walproof.facts import Run, Trial
from walproof.report.answer import Answer, NextCommand, next_commands
from walproof.report.blocks import Block, Section, Table, Verdicts
from walproof.report.cells import Cells
from walproof.report.certainty import failure_blocks, outlier_paragraph, precision_tables, warning_table
from walproof.report.figures.figure import Figure, FigureData
from walproof.report.figures.promises import QUESTION, note, promise_ratios
from walproof.report.gate import gate_answers, gate_section
from walproof.report.setup import between_versions, environment_tables, plan_tables, repeat_blocks
from walproof.report.words import KindWords
from walproof.sentences import say_count
from walproof.units import format_utc


@dataclass(frozen=True, slots=True)
class ReportView:
    """A whole report as plain values, beside the facts that it was made from."""

    run: Run
    trials: tuple[Trial, ...]
    analysis: Analysis
    findings: tuple[Finding, ...]
    question: str
    description: str
    dateline: str
    """When, on what, which run: one line."""
    answers: tuple[Answer, ...]
    how_sure: tuple[str, ...]
    what_would_help: tuple[str, ...]
    next_commands: tuple[NextCommand, ...]
    overview: tuple[Figure, ...]
    """The charts of the first page: the ratios."""
    verdicts: tuple[Verdicts, ...]
    sections: tuple[Section, ...]
    gate: Judgement | None = None
    """What the trials say about the plan's promises; None without promises."""


@dataclass(frozen=True, slots=True)
class Body:
    """What differs by kind of study."""

    answers: tuple[Answer, ...]
    how_sure: tuple[str, ...]
    overview: tuple[Figure, ...]
    sections: tuple[Section, ...]
    """Sections; empty ones are left out."""
    what_would_help: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    verdicts: tuple[Verdicts, ...] = ()


def lay_out(
    words: KindWords[Any], run: Run, trials: Sequence[Trial], analysis: Analysis, body: Body
) -> ReportView:
    """The report with that body."""
    differences = between_versions(run)
    gate = judge(run.plan, trials, is_finished=run.finished_at is not None)
    gate_help = () if gate is None else say_help(run.plan, gate, trials)
    promises = None if gate is None else promise_ratios(run.plan, trials, gate)
    gate_figure = FigureMaker(run, analysis).figure("gate", QUESTION, note(run.plan), promises)
    sections = (
        gate_section(run, trials, gate, *(gate_figure if body.overview else ())),
        *body.sections,
        Section("setup", "What was run", (*plan_tables(run, words), *differences, *environment_tables(run))),
        Section("repeat", "Run it again", tuple(repeat_blocks(run))),
    )
    return ReportView(
        run=run,
        trials=tuple(trials),
        analysis=analysis,
        findings=body.findings,
        question=run.plan.title,
        description=" ".join(run.plan.description.split()),
        dateline=_dateline(run),
        answers=(*gate_answers(run, gate), *body.answers),
        how_sure=(*body.how_sure, *run.plan.notes),
        what_would_help=(*gate_help, *body.what_would_help),
        next_commands=next_commands(run, analysis),
        overview=body.overview or gate_figure,
        verdicts=body.verdicts,
        sections=_finished(run, sections),
        gate=gate,
    )


def certainty_section(cells: Cells, trials: Sequence[Trial], analysis: Analysis, *course: Block) -> Section:
    """How sure the ratios are; ``course`` is what can be said of the machine over the run."""
    blocks = (
        *precision_tables(cells, analysis),
        *outlier_paragraph(analysis),
        *course,
        *failure_blocks(cells, trials, analysis),
        *warning_table(trials),
    )
    return Section("certainty", "How sure", blocks)


_OTHER_DISK = frozenset({"survival", "losses", "cut-cases", "failures", "setup", "repeat"})
"""Sections without figures of the emulated disk: power cuts use a disk that takes no time."""


def _finished(run: Run, sections: Sequence[Section]) -> tuple[Section, ...]:
    """The sections that have something to show, and under each table of measurements the emulated disk."""
    shown = tuple(section for section in sections if section.blocks)
    device = _device(run)
    if device is None:
        return shown
    said = f"Emulated disk: {device}."
    return tuple(
        section
        if section.id in _OTHER_DISK
        else replace(section, blocks=tuple(_with_note(block, said) for block in section.blocks))
        for section in shown
    )


def _with_note(block: Block, said: str) -> Block:
    if not isinstance(block, Table):
        return block
    return replace(block, note=said if block.note is None else f"{block.note} {said}")


def _device(run: Run) -> str | None:
    """The emulated disk with its figures; None on a real one."""
    if run.plan.device is None:
        return None
    return run.environment.facts.get("emulated_device", run.plan.device)


def _dateline(run: Run) -> str:
    facts = run.environment.facts
    parts = [facts.get("cpu", ""), facts.get("disk", "")]
    if (device := _device(run)) is not None:
        parts[1] = f"emulated disk {device}"
    machine = ", ".join(part for part in parts if part)
    installs = ", ".join(install.label for install in run.plan.installs)
    return " · ".join(
        part
        for part in (format_utc(run.created_at), f"PostgreSQL {installs}", machine, f"run {run.id}")
        if part
    )


class FigureMaker:
    """Adds to each figure the text that all captions share."""

    def __init__(self, run: Run, analysis: Analysis) -> None:
        facts = run.environment.facts
        disk = " ".join(facts[name] for name in ("disk", "disk_model", "filesystem") if name in facts)
        if (device := _device(run)) is not None:
            disk = f"emulated: {device}"
        parts = [
            f"n = {say_count(analysis.trials - analysis.failed, 'trial')}"
            + (f" ({analysis.failed} failed, left out)" if analysis.failed else ""),
            facts.get("cpu", ""),
            f"disk {disk}" if disk else "",
            "PostgreSQL " + ", ".join(install.label for install in run.plan.installs),
            f"seed {run.plan.seed}",
            f"run {run.id}",
            f"walproof {run.walproof_version}",
        ]
        self._caption = "; ".join(part for part in parts if part)

    def figure(self, id_: str, title: str, note: str, data: FigureData | None) -> tuple[Figure, ...]:
        """The figure; nothing without data."""
        if data is None:
            return ()
        return (Figure(id_, title, note, self._caption, data.describe(), data),)
