"""From facts to a report: the one document that terminal, HTML and Markdown show, and JSON accompanies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from walproof.advise import Finding, verdicts
from walproof.analysis import Analysis, CutSummary, analyse, cut_summaries
from walproof.facts import Run, Series, Trial
from walproof.report.answer import Answer, NextCommand, answers, how_sure, next_commands, what_would_help
from walproof.report.blocks import Block, Section, Table, Verdict, Verdicts
from walproof.report.causes import checkpoint_table, disk_table, lock_paragraphs, process_tables, wait_table
from walproof.report.cells import Cells
from walproof.report.certainty import (
    drift_paragraph,
    failure_blocks,
    outlier_paragraph,
    precision_tables,
    warning_table,
)
from walproof.report.failover import failover_tables
from walproof.report.figures.course import course, describe_course
from walproof.report.figures.figure import Figure, FigureData
from walproof.report.figures.latency import describe_latencies, latencies
from walproof.report.figures.load_curve import describe_load_curves, load_curves
from walproof.report.figures.losses import describe_losses, losses
from walproof.report.figures.outcomes import describe_outcomes, outcomes
from walproof.report.figures.ratios import describe_ratios, factor_ratios, install_ratios, variant_ratios
from walproof.report.figures.seconds import describe_seconds, seconds
from walproof.report.figures.statements import describe_statements, statement_data
from walproof.report.figures.style import symbol_key
from walproof.report.figures.waits import describe_waits, wait_shares
from walproof.report.figures.writers import describe_writers
from walproof.report.flushes import flush_blocks
from walproof.report.load import (
    LOAD_METRIC,
    busy_tables,
    load_answers,
    load_published_tables,
    load_tables,
    part_tables,
    risk_tables,
)
from walproof.report.numbers import counted, utc
from walproof.report.power_cut import (
    audit_blocks,
    cut_answers,
    failing_images,
    loss_tables,
    method_blocks,
    survival_tables,
    torn_tables,
)
from walproof.report.prediction import prediction_blocks
from walproof.report.recovery import recovery_answers, recovery_tables, whatif_tables
from walproof.report.replay import (
    REPLAY_METRIC,
    replay_answers,
    replay_tables,
    starved_sentences,
    syscall_tables,
)
from walproof.report.results import factor_tables, install_table, published_tables, result_tables
from walproof.report.setup import environment_tables, plan_tables, repeat_blocks
from walproof.report.statements import is_about_statements, statement_answers, statement_sections
from walproof.report.volume import volume_blocks, writer_data


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


def build_view(run: Run, trials: Sequence[Trial], series: Sequence[Series] = ()) -> ReportView:
    """Analyse the facts of a run, whole or interrupted, and lay them out.

    Of ``series`` only ``tps`` is shown.
    Raises AnalysisError when the trials are not those of one run.
    """
    if is_about_statements(Cells(run.plan, trials)):
        return _statement_view(run, trials, analyse(run.plan, trials, "wal_bytes_decoded"))
    if run.plan.power_cut is not None and run.plan.power_cut.only:
        return _cut_view(run, trials, analyse(run.plan, trials, "cut_acknowledged"))
    if run.plan.replay is not None:
        return _replay_view(run, trials, analyse(run.plan, trials, REPLAY_METRIC))
    if run.plan.load is not None:
        return _load_view(run, trials, analyse(run.plan, trials, LOAD_METRIC))
    analysis = analyse(run.plan, trials)
    return report_view(run, trials, series, analysis, verdicts(run.plan, trials, analysis))


def _cut_view(run: Run, trials: Sequence[Trial], analysis: Analysis) -> ReportView:
    """The report of a study whose trials are power cuts: what is left instead of throughput."""
    cells = Cells(run.plan, trials)
    summaries = cut_summaries(run.plan, trials)
    sections = (
        *_cut_sections(run, trials, cells, analysis, summaries),
        Section("failures", "Failed trials", tuple(failure_blocks(cells, trials, analysis))),
        Section("setup", "What was run", (*plan_tables(run), *environment_tables(run))),
        Section("repeat", "Run it again", tuple(repeat_blocks(run))),
    )
    return ReportView(
        run=run,
        trials=tuple(trials),
        analysis=analysis,
        findings=(),
        question=run.plan.title,
        description=" ".join(run.plan.description.split()),
        dateline=_dateline(run),
        answers=cut_answers(cells, summaries),
        how_sure=(
            f"{counted(sum(one.images for one in summaries), 'image')} of "
            f"{counted(sum(one.cuts for one in summaries), 'cut')}; "
            f"{counted(sum(one.void for one in summaries), 'trial')} void or failed.",
        ),
        what_would_help=(
            "More rounds: the bound on what was never seen to fail is 3 divided by the number of images.",
        ),
        next_commands=next_commands(run),
        overview=_outcome_figures(run, cells, analysis, summaries),
        verdicts=(),
        sections=_finished(run, sections),
    )


def _outcome_figures(
    run: Run, cells: Cells, analysis: Analysis, summaries: Sequence[CutSummary]
) -> tuple[Figure, ...]:
    return _FigureMaker(run, analysis).figure(
        "outcomes",
        "What did servers make of what the power cuts left?",
        "Numbers in a bar are images. Durability class: " + symbol_key() + ".",
        outcomes(cells, summaries),
        describe_outcomes,
    )


def _cut_sections(
    run: Run, trials: Sequence[Trial], cells: Cells, analysis: Analysis, summaries: Sequence[CutSummary]
) -> tuple[Section, ...]:
    if not summaries:
        return ()
    windows = _FigureMaker(run, analysis).figure(
        "losses",
        "How old is the oldest commit that a power cut loses?",
        "Circle: a cut; diamond: the median; bar: the bound for asynchronous commits, 3 x wal_writer_delay.",
        losses(cells, summaries),
        describe_losses,
    )
    is_only = run.plan.power_cut is not None and run.plan.power_cut.only
    bars = () if is_only else _outcome_figures(run, cells, analysis, summaries)
    return (
        Section(
            "survival",
            "Survives a power cut",
            (*bars, *survival_tables(cells, summaries), *torn_tables(cells, summaries)),
        ),
        Section("losses", "What is lost", (*windows, *loss_tables(cells, summaries))),
        Section(
            "cut-cases",
            "Cases",
            (*failing_images(trials), *audit_blocks(cells, summaries), *method_blocks(run, summaries)),
        ),
    )


def _replay_view(run: Run, trials: Sequence[Trial], analysis: Analysis) -> ReportView:
    """The report of a study whose trials replay WAL: CPU of the startup process instead of throughput."""
    cells = Cells(run.plan, trials)
    make = _FigureMaker(run, analysis)
    overview = make.figure(
        "ratios",
        f"How much CPU does replaying a row take, relative to {run.plan.baseline}?",
        "Diamond: geometric mean over rounds; bar: its interval; circle: the ratio of one round. Less is "
        "faster. The line at 1x is the baseline.",
        variant_ratios(cells, analysis),
        describe_ratios,
    )
    factors = make.figure(
        "factors",
        "What does each factor do to replay, and which act together?",
        "Diamond: effect of a level against the factor's first level; "
        "a product of two: what both together do beyond each.",
        factor_ratios(cells, analysis.factors),
        describe_ratios,
    )
    installs = make.figure(
        "installs",
        "Does the PostgreSQL version matter to replay?",
        "Diamond: geometric mean over rounds; bar: its interval; circle: the ratio of one round.",
        install_ratios(cells, analysis),
        describe_ratios,
    )
    sections = (
        Section("results", "Results", tuple(replay_tables(cells, analysis))),
        Section("factors", "Factors", (*factors, *factor_tables(cells, analysis))),
        Section("installs", "Installs", (*installs, *install_table(cells, analysis))),
        Section("syscalls", "System calls", tuple(syscall_tables(cells))),
        Section(
            "certainty",
            "How sure",
            (
                *precision_tables(cells, analysis),
                *outlier_paragraph(analysis),
                *failure_blocks(cells, trials, analysis),
                *warning_table(trials),
            ),
        ),
        Section("setup", "What was run", (*plan_tables(run), *environment_tables(run))),
        Section("repeat", "Run it again", tuple(repeat_blocks(run))),
    )
    return ReportView(
        run=run,
        trials=tuple(trials),
        analysis=analysis,
        findings=(),
        question=run.plan.title,
        description=" ".join(run.plan.description.split()),
        dateline=_dateline(run),
        answers=replay_answers(cells, analysis),
        how_sure=(*how_sure(run, cells, analysis, ()), *starved_sentences(cells)),
        what_would_help=what_would_help(run.plan, trials, analysis),
        next_commands=next_commands(run),
        overview=overview,
        verdicts=(),
        sections=tuple(section for section in sections if section.blocks),
    )


def _load_view(run: Run, trials: Sequence[Trial], analysis: Analysis) -> ReportView:
    """The report of a study whose trials fill a table: rows a second until it is complete."""
    cells = Cells(run.plan, trials)
    make = _FigureMaker(run, analysis)
    overview = make.figure(
        "ratios",
        f"How fast is the table complete, relative to {run.plan.baseline}?",
        "Diamond: geometric mean over rounds; bar: its interval; circle: the ratio of one round. Colour and "
        "heading: durability class during the load. The line at 1x is the baseline.",
        variant_ratios(cells, analysis),
        describe_ratios,
    )
    curves = make.figure(
        "curves",
        "How large need a batch be, and how many sessions help?",
        "Filled: median over trials; hollow: a trial. Knee: the smallest value within 5 % of the best.",
        load_curves(cells),
        describe_load_curves,
    )
    installs = make.figure(
        "installs",
        "Does the PostgreSQL version matter to loading?",
        "Diamond: geometric mean over rounds; bar: its interval; circle: the ratio of one round.",
        install_ratios(cells, analysis),
        describe_ratios,
    )
    sections = (
        Section("results", "Results", (*load_tables(cells, analysis), *busy_tables(cells))),
        Section("curves", "Batches and sessions", curves),
        Section("parts", "What is put off", tuple(part_tables(cells))),
        Section("risk", "Durability", tuple(risk_tables(cells))),
        Section("published", "Beside the published figures", tuple(load_published_tables(cells))),
        Section("installs", "Installs", (*installs, *install_table(cells, analysis))),
        Section(
            "certainty",
            "How sure",
            (
                *precision_tables(cells, analysis),
                *outlier_paragraph(analysis),
                *failure_blocks(cells, trials, analysis),
                *warning_table(trials),
            ),
        ),
        Section("setup", "What was run", (*plan_tables(run), *environment_tables(run))),
        Section("repeat", "Run it again", tuple(repeat_blocks(run))),
    )
    return ReportView(
        run=run,
        trials=tuple(trials),
        analysis=analysis,
        findings=(),
        question=run.plan.title,
        description=" ".join(run.plan.description.split()),
        dateline=_dateline(run),
        answers=load_answers(cells, analysis),
        how_sure=how_sure(run, cells, analysis, ()),
        what_would_help=what_would_help(run.plan, trials, analysis),
        next_commands=next_commands(run),
        overview=overview,
        verdicts=(),
        sections=_finished(run, sections),
    )


def _statement_view(run: Run, trials: Sequence[Trial], analysis: Analysis) -> ReportView:
    """The report of a study whose trials measure statements: bytes instead of throughput."""
    cells = Cells(run.plan, trials)
    overview = _FigureMaker(run, analysis).figure(
        "statements",
        "How many bytes of WAL does each statement write under each variant?",
        "A point is a trial.",
        statement_data(cells),
        describe_statements,
    )
    sections = (
        *statement_sections(cells, analysis),
        Section("failures", "Failed trials", tuple(failure_blocks(cells, trials, analysis))),
        Section("setup", "What was run", (*plan_tables(run), *environment_tables(run))),
        Section("repeat", "Run it again", tuple(repeat_blocks(run))),
    )
    return ReportView(
        run=run,
        trials=tuple(trials),
        analysis=analysis,
        findings=(),
        question=run.plan.title,
        description=" ".join(run.plan.description.split()),
        dateline=_dateline(run),
        answers=statement_answers(cells, analysis),
        how_sure=how_sure(run, cells, analysis, ()),
        what_would_help=(),
        next_commands=next_commands(run),
        overview=overview,
        verdicts=(),
        sections=_finished(run, sections),
    )


def report_view(
    run: Run,
    trials: Sequence[Trial],
    series: Sequence[Series],
    analysis: Analysis,
    findings: Sequence[Finding],
) -> ReportView:
    """Lay out facts that have been analysed."""
    cells = Cells(run.plan, trials)
    summaries = cut_summaries(run.plan, trials)
    make = _FigureMaker(run, analysis)
    overview = make.figure(
        "ratios",
        f"How much throughput does each variant give, relative to {run.plan.baseline}?",
        "Diamond: geometric mean over rounds; bar: its interval; circle: the ratio of one round, hollow "
        "where it stands apart from the others. Colour and heading: durability class. The line at 1x is "
        f"the baseline, of durability class {run.plan.variant(run.plan.baseline).durability.value}.",
        variant_ratios(cells, analysis),
        describe_ratios,
    )
    waits = make.figure(
        "waits",
        "What do active backends wait for?",
        "Numbers in a bar are percent. Durability class: " + symbol_key() + ".",
        wait_shares(cells),
        describe_waits,
    )
    latency = make.figure(
        "latency",
        "How long does a transaction take?",
        "Hollow: a trial; filled: the median over trials. Durability class: " + symbol_key() + ".",
        latencies(cells),
        describe_latencies,
    )
    by_second = make.figure(
        "seconds",
        "How even is throughput within a window?",
        "Line: median over trials; band: lowest to highest. Each panel has its own axis from 0. "
        "Colour and second line: durability class.",
        seconds(cells, series),
        describe_seconds,
    )
    order = make.figure(
        "course",
        "Did the machine change during the run?",
        "A point is a trial. The last panel puts all trials on one scale; dashed: the trend.",
        course(cells, trials, analysis),
        describe_course,
    )
    factors = make.figure(
        "factors",
        "What does each factor do, and which act together?",
        "Diamond: effect of a level against the factor's first level; "
        "a product of two: what both together do beyond each.",
        factor_ratios(cells, analysis.factors),
        describe_ratios,
    )
    installs = make.figure(
        "installs",
        "Does the PostgreSQL version matter?",
        "Diamond: geometric mean over rounds; bar: its interval; circle: the ratio of one round.",
        install_ratios(cells, analysis),
        describe_ratios,
    )
    writers = make.figure(
        "writers",
        "Does compression write less, or only through another process?",
        "A bar is a trial. Its length is the total; colours are who wrote.",
        writer_data(cells),
        describe_writers,
    )
    sections = (
        Section("recovery", "Recovery after a crash", (*recovery_tables(cells), *whatif_tables(cells))),
        Section("failover", "What a failover loses", tuple(failover_tables(cells))),
        Section("volume", "WAL volume", (*writers, *volume_blocks(cells, analysis, list(trials)))),
        Section("flushes", "Flush rates", tuple(flush_blocks(run, cells))),
        Section("results", "Results", (*result_tables(cells, analysis, findings, summaries), *latency)),
        Section(
            "published",
            "Beside the published figures",
            (*published_tables(cells, analysis), *prediction_blocks(run, cells, analysis)),
        ),
        *_cut_sections(run, trials, cells, analysis, summaries),
        Section("factors", "Factors", (*factors, *factor_tables(cells, analysis))),
        Section("installs", "Installs", (*installs, *install_table(cells, analysis))),
        Section(
            "causes",
            "Where the time goes",
            (
                *waits,
                *lock_paragraphs(run.plan, analysis),
                *wait_table(cells),
                *process_tables(cells),
                *disk_table(cells),
            ),
        ),
        Section("checkpoints", "Within the windows", (*by_second, *checkpoint_table(cells))),
        Section(
            "certainty",
            "How sure",
            (
                *precision_tables(cells, analysis),
                *outlier_paragraph(analysis),
                *drift_paragraph(analysis),
                *order,
                *failure_blocks(cells, trials, analysis),
                *warning_table(trials),
            ),
        ),
        Section("setup", "What was run", (*plan_tables(run), *environment_tables(run))),
        Section("repeat", "Run it again", tuple(repeat_blocks(run))),
    )
    return ReportView(
        run=run,
        trials=tuple(trials),
        analysis=analysis,
        findings=tuple(findings),
        question=run.plan.title,
        description=" ".join(run.plan.description.split()),
        dateline=_dateline(run),
        answers=(*recovery_answers(cells), *answers(cells, analysis)),
        how_sure=how_sure(run, cells, analysis, findings),
        what_would_help=what_would_help(run.plan, trials, analysis),
        next_commands=next_commands(run),
        overview=overview or installs,
        verdicts=_verdicts(cells, findings),
        sections=_finished(run, sections),
    )


_OTHER_DISK = frozenset({"survival", "losses", "cut-cases", "failures", "setup", "repeat"})
"""Sections without figures of the emulated disk: power is cut on one that takes no time."""


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
        part for part in (utc(run.created_at), f"PostgreSQL {installs}", machine, f"run {run.id}") if part
    )


def _verdicts(cells: Cells, findings: Sequence[Finding]) -> tuple[Verdicts, ...]:
    """Findings by group and variant, in the order in which they were found."""
    groups = []
    for install, workload in cells.groups():
        own = []
        for variant in cells.variants():
            said = [
                f.sentence
                for f in findings
                if (f.install, f.workload, f.variant) == (install, workload, variant.name)
            ]
            if said:
                own.append(
                    Verdict(
                        variant.name,
                        variant.durability,
                        tuple(_sentence(text, variant.name) for text in said),
                    )
                )
        if own:
            groups.append(Verdicts(cells.group_title(install, workload), tuple(own)))
    run_wide = tuple(_sentence(f.sentence) for f in findings if f.variant is None)
    if run_wide:
        groups.append(Verdicts("The run", (Verdict("", None, run_wide),)))
    return tuple(groups)


def _sentence(text: str, variant: str = "") -> str:
    """With a capital, unless it begins with a name (of a variant or a setting), and a full stop."""
    begins_with_word = text.split(maxsplit=1)[:1] and text.split(maxsplit=1)[0].rstrip(",;:").isalpha()
    if begins_with_word and not (variant and text.startswith(variant)):
        text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


class _FigureMaker:
    """Adds to each figure what all captions have in common."""

    def __init__(self, run: Run, analysis: Analysis) -> None:
        facts = run.environment.facts
        disk = " ".join(facts[name] for name in ("disk", "disk_model", "filesystem") if name in facts)
        if (device := _device(run)) is not None:
            disk = f"emulated: {device}"
        parts = [
            f"n = {counted(analysis.trials - analysis.failed, 'trial')}"
            + (f" ({analysis.failed} failed, left out)" if analysis.failed else ""),
            facts.get("cpu", ""),
            f"disk {disk}" if disk else "",
            "PostgreSQL " + ", ".join(install.label for install in run.plan.installs),
            f"seed {run.plan.seed}",
            f"run {run.id}",
            f"walproof {run.walproof_version}",
        ]
        self._caption = "; ".join(part for part in parts if part)

    def figure(
        self, id_: str, title: str, note: str, data: FigureData | None, describe: Callable[..., str]
    ) -> tuple[Figure, ...]:
        """The figure, or nothing without data."""
        if data is None:
            return ()
        return (Figure(id_, title, note, self._caption, describe(data), data),)
