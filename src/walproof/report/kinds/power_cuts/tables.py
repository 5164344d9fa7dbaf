"""The report of power cuts: what survives under each setting, what is lost, and what the counts prove."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.power_cut import CutOutcome, CutSummary
from walproof.facts import CutConditions, ImageState, Run, Trial
from walproof.report.answer import Answer
from walproof.report.blocks import Block, Column, Paragraph, Table, TableCell, class_cell, text_cells
from walproof.report.cells import Cells
from walproof.report.figures.style import marked, symbol_key
from walproof.report.numbers import UNKNOWN, number, percent
from walproof.sentences import say_count
from walproof.units import format_bytes, format_duration

_SHOWN_FAILURES = 40
_SHOWN_FILES = 8


def cut_answers(cells: Cells, summaries: Sequence[CutSummary]) -> tuple[Answer, ...]:
    """Per workload: which variants survive, which lose the last commits, which fail."""
    found = []
    for install, workload in cells.groups():
        of_group = [
            summary
            for summary in summaries
            if (summary.install, summary.workload) == (install, workload) and summary.images
        ]
        sentences = []
        safe = [summary for summary in of_group if not summary.failed and not summary.lost]
        if safe:
            images = min(summary.images for summary in safe)
            least = min(safe, key=lambda summary: summary.cuts)
            sentences.append(
                f"Power cuts lost or damaged nothing under {_names(safe)}: in "
                f"{say_count(images, 'image')} of {say_count(least.cuts, 'cut')} or more each"
                f"{_bounded(least)}."
            )
        for summary in of_group:
            if summary.lost and not summary.failed:
                sentences.append(_say_lost(summary))
        failing = [summary for summary in of_group if summary.failed]
        sentences += [
            f"{summary.variant}: {summary.failed} of {say_count(summary.images, 'image')} of power cuts "
            f"failed ({_say_states(summary)}), in {summary.failed_cuts} of {say_count(summary.cuts, 'cut')}."
            for summary in failing
        ]
        if not of_group:
            sentences.append("No cut ended with images: there is no answer yet.")
        found.append(Answer(cells.group_title(install, workload), tuple(sentences)))
    return tuple(found)


def _names(summaries: Sequence[CutSummary]) -> str:
    names = [summary.variant for summary in summaries]
    return names[0] if len(names) == 1 else f"{'; '.join(names[:-1])} and {names[-1]}"


def _say_lost(summary: CutSummary) -> str:
    text = (
        f"Power cuts lost the newest acknowledged commits under {summary.variant} in "
        f"{len(summary.windows_ms)} of {say_count(summary.cuts, 'cut')}: "
        f"{max(summary.lost_commits)} at most; the oldest was acknowledged "
        f"{number(summary.window_ms_median)} ms (median), {number(max(summary.windows_ms))} ms (most) before "
        "the cut"
    )
    bound = f" (bound {number(summary.bound_ms)} ms)" if summary.bound_ms is not None else ""
    return f"{text}{bound}; nothing else was lost or damaged in {say_count(summary.images, 'image')}."


def _say_states(summary: CutSummary) -> str:
    """The failing states, the worst first."""
    found = [state for state in reversed(ImageState) if state.is_failure and summary.counts[state]]
    return ", ".join(f"{state.value}: {summary.counts[state]}" for state in found)


def survival_tables(cells: Cells, summaries: Sequence[CutSummary]) -> list[Block]:
    """Counts of images by state, per variant."""
    states = tuple(ImageState)
    columns = (
        Column("variant", whole_most=31),
        Column("durability class", terminal=False),
        Column("cuts", numeric=True, terminal=False),
        Column("images", numeric=True),
        *(Column(state.value, numeric=True) for state in states),
        Column("void", numeric=True, terminal=False),
        Column("failing", numeric=True),
    )
    blocks: list[Block] = []
    for install, workload in cells.groups():
        rows = [
            (
                TableCell(marked(summary.variant, cells.plan.variant(summary.variant).durability)),
                class_cell(cells.plan.variant(summary.variant).durability),
                *text_cells(
                    (
                        str(summary.cuts),
                        str(summary.images),
                        *(str(summary.counts[state] or UNKNOWN) for state in states),
                        str(summary.void or UNKNOWN),
                        _rate(summary),
                    )
                ),
            )
            for summary in summaries
            if (summary.install, summary.workload) == (install, workload)
        ]
        blocks.append(
            Table(
                f"Survives a power cut? {cells.group_title(install, workload)}",
                columns,
                tuple(rows),
                "An image is a state that the disk could have been left in. Failing: images that do not "
                "start, are corrupt or have holes; where none of n cuts has one, less than 3/n of all cuts "
                "do, with 95 % confidence. Images of one cut share its moment and prove no more. Benign: the "
                "checksum of a page of a visibility or free space map, which PostgreSQL repairs. "
                f"{symbol_key()}.",
            )
        )
    return blocks


SURVIVAL_NOTE = (
    "Survives a power cut: of all images of the disk after a cut, how many failed (no start, corrupt, holes) "
    "or lost the last commits; where none of n cuts has one, less than 3/n of all cuts do, with 95 % "
    "confidence."
)


def say_survival(summary: CutSummary) -> str:
    """``yes, 0 of 120; below 10 % of cuts``, ``no, 28 of 120``: the verdict for a table beside throughput."""
    if summary.survives is None:
        return UNKNOWN
    text = f"{summary.survives.value}, {summary.failed or summary.lost} of {summary.images}"
    if summary.survives is not CutOutcome.YES:
        return text
    return f"{text}{_below(summary)}"


def _rate(summary: CutSummary) -> str:
    if not summary.images:
        return UNKNOWN
    count = f"{summary.failed} of {summary.images}"
    if not summary.failed:
        return f"{count}{_below(summary)}"
    share = percent(summary.failed / summary.images).replace(" ", "\N{NO-BREAK SPACE}")
    return f"{count}, {share}"


def _bounded(summary: CutSummary) -> str:
    if _proves_nothing(summary):
        return ", too few cuts to say how often one would"
    return f", so that with 95 % confidence less than {percent(summary.cut_rate_most)} of cuts would"


def _below(summary: CutSummary) -> str:
    """What none in n cuts proves, with 95 % confidence; empty for so few that it is nothing."""
    if _proves_nothing(summary):
        return ""
    return f"; below {percent(summary.cut_rate_most)} of cuts".replace(" %", "\N{NO-BREAK SPACE}%")


def _proves_nothing(summary: CutSummary) -> bool:
    # Of cuts: what an image shows depends on the moment, which all images of a cut have in common.
    return summary.cut_rate_most is None or summary.cut_rate_most >= 1


def loss_tables(cells: Cells, summaries: Sequence[CutSummary]) -> list[Block]:
    """Commits lost and windows of the variants that lose the last commits."""
    columns = (
        Column("variant"),
        Column("cuts that lost", numeric=True),
        Column("commits lost, median", numeric=True),
        Column("most", numeric=True),
        Column("window ms, median", numeric=True),
        Column("p95", numeric=True),
        Column("most", numeric=True),
        Column("bound ms", numeric=True),
    )
    blocks: list[Block] = []
    for install, workload in cells.groups():
        rows = []
        for summary in summaries:
            if (summary.install, summary.workload) != (install, workload) or not summary.windows_ms:
                continue
            lost = sorted(summary.lost_commits)
            rows.append(
                text_cells(
                    (
                        summary.variant,
                        f"{len(lost)} of {summary.cuts}",
                        str(lost[len(lost) // 2]),
                        str(lost[-1]),
                        number(summary.window_ms_median),
                        number(summary.window_ms_p95),
                        number(max(summary.windows_ms)),
                        number(summary.bound_ms),
                    )
                )
            )
        if rows:
            blocks.append(
                Table(
                    f"What is lost: {cells.group_title(install, workload)}",
                    columns,
                    tuple(rows),
                    "Window: from the acknowledgement of the oldest lost commit to the cut. Bound: "
                    "3 x wal_writer_delay, for asynchronous commits.",
                )
            )
    return blocks


def torn_tables(cells: Cells, summaries: Sequence[CutSummary]) -> list[Block]:
    """Images with a torn page, and how many of them failed: what full_page_writes protects from."""
    rows = tuple(
        (
            TableCell(summary.variant),
            class_cell(cells.plan.variant(summary.variant).durability),
            *text_cells(
                (
                    cells.group_title(summary.install, summary.workload),
                    str(summary.images),
                    str(summary.torn_images),
                    str(summary.torn_caught),
                )
            ),
        )
        for summary in summaries
        if summary.torn_images
    )
    if not rows:
        return []
    columns = (
        Column("variant"),
        Column("durability class"),
        Column("workload"),
        Column("images", numeric=True),
        Column("with a torn page", numeric=True),
        Column("of these failed", numeric=True),
    )
    note = (
        "A page of a relation whose checksum was wrong before recovery. Full-page images heal it; so does "
        "redo that makes the page anew, and a torn page of a dropped relation harms nobody."
    )
    return [Table("Torn pages", columns, rows, note, terminal=False)]


def failing_images(trials: Sequence[Trial]) -> list[Block]:
    """Every image that failed, with its reason and how to see it again."""
    rows = []
    for trial in trials:
        for image in trial.cut.images if trial.cut is not None else ():
            if image.state.is_failure:
                rows.append(
                    text_cells(
                        (
                            f"{trial.number}/{image.number}",
                            trial.variant,
                            trial.cut.moment if trial.cut else UNKNOWN,
                            image.survival,
                            image.state.value,
                            image.reason or UNKNOWN,
                            image.kept or UNKNOWN,
                        )
                    )
                )
    if not rows:
        return []
    columns = ("case", "variant", "cut at", "survived", "state", "reason", "kept in")
    note = f"The first {_SHOWN_FAILURES} of {len(rows)}. " if len(rows) > _SHOWN_FAILURES else ""
    note += 'Case: trial and image. "walproof power-cut replay" repeats one.'
    shown = tuple(rows[:_SHOWN_FAILURES])
    return [Table("Images that failed", tuple(map(Column, columns)), shown, note, terminal=False)]


def audit_blocks(cells: Cells, summaries: Sequence[CutSummary]) -> list[Block]:
    """The fsync audit: files that checkpoints should have flushed."""
    missing = {path for summary in summaries for path in summary.unflushed}
    if missing:
        rows = tuple(
            text_cells((summary.variant, summary.install, ", ".join(summary.unflushed[:_SHOWN_FILES])))
            for summary in summaries
            if summary.unflushed
        )
        columns = (Column("variant"), Column("PostgreSQL"), Column("files"))
        return [
            Table(
                "Fsync audit: files that the last two checkpoints should have flushed and did not",
                columns,
                rows,
                "Written before the first of them began, and not flushed when the second had ended: a "
                "missing fsync in PostgreSQL or an extension.",
            )
        ]
    audited = sum(summary.audited for summary in summaries if not _skips_flushes(cells, summary.variant))
    if not audited:
        return [Paragraph("Fsync audit: no cut came after two checkpoints, so no file was looked at.")]
    return [
        Paragraph(
            f"Fsync audit: after the last two checkpoints before each of {say_count(audited, 'cut')}, every "
            "file that was written before them had been flushed. Cuts with fewer checkpoints before them "
            "are not counted. Files that PostgreSQL creates anew at start are left out."
        )
    ]


def _skips_flushes(cells: Cells, name: str) -> bool:
    return cells.plan.settings_of(cells.plan.variant(name)).get("fsync") == "off"


def method_blocks(run: Run, summaries: Sequence[CutSummary]) -> list[Block]:
    """The conditions of the cuts, their cost, and the self-test."""
    blocks: list[Block] = []
    said = run.environment.facts.get("self_test")
    if said is not None:
        blocks.append(Paragraph(f"Self-test of the simulator before the run, passed: {said}."))
    rows = tuple(
        text_cells((variant.name, *_conditions(variant.conditions_as(CutConditions))))
        for variant in run.plan.variants
    )
    columns = ("variant", "whole units", "written back by age", "names", "checksums", "other")
    blocks.append(Table("The simulated disk", tuple(map(Column, columns)), rows, _MODEL_NOTE, terminal=False))
    cut_s = [summary.cut_s for summary in summaries if summary.cuts]
    if cut_s:
        memory = max(summary.undo_bytes_max for summary in summaries)
        middle = sorted(cut_s)[len(cut_s) // 2]
        blocks.append(
            Paragraph(
                f"A cut with its images took {format_duration(middle)} (median over variants), "
                f"{number(60 / middle)} a minute. Old contents that had to be kept: {format_bytes(memory)} "
                "at most."
            )
        )
    return blocks


_MODEL_NOTE = (
    "Whole units: the size of an atomic write. Each unit that was not flushed "
    "holds its newest, its durable or a version in between. Names: created, renamed and removed files "
    "survive in their order, as in a journal, or one by one as far as POSIX allows. The worst case that "
    "these allow is harsher than most devices."
)


def _conditions(cut: CutConditions) -> tuple[str, ...]:
    unit = "512 B and 4 kB" if cut.unit_bytes is None else format_bytes(cut.unit_bytes)
    other = [
        text
        for is_set, text in (
            (cut.failing_flush, "one flush fails"),
            (cut.unlogged, "unlogged tables"),
            (cut.event is not None, f"cut at: {cut.event}"),
        )
        if is_set
    ]
    return (
        unit,
        "never" if cut.writeback_s is None else f"after {format_duration(cut.writeback_s)}",
        "as in a journal" if cut.names == "journal" else "as POSIX allows",
        "yes" if cut.checksums else "no",
        ", ".join(other) or UNKNOWN,
    )
