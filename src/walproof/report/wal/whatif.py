"""Predictions laid out for reading: the answer, the curve, other settings, and how certain all this is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from walproof.analysis.server_limits import ServerLimits
from walproof.analysis.whatif import ServerPrediction, Study
from walproof.analysis.whatif_answer import LimitsAnswer
from walproof.analysis.whatif_reasons import prediction_reasons, recording_reasons
from walproof.report.blocks import Block, Column, Paragraph, Section, Table, class_cell, text_cells
from walproof.report.figures.figure import Figure
from walproof.report.figures.wal_curve import Curve, CurvePoint, WalCurveData, size_label
from walproof.report.numbers import UNKNOWN, number, percent
from walproof.report.wal.view import WalView
from walproof.sentences import say_list
from walproof.settings.durability import DurabilityClass
from walproof.units import format_bytes, format_duration
from walproof.wal.whatif import Target


@dataclass(frozen=True, slots=True)
class AnsweredLimits:
    """The limits that settings have to keep, and what was found."""

    limits: ServerLimits
    answer: LimitsAnswer
    notes: tuple[str, ...] = ()
    """Sentences on what the recovery times rest on."""


def whatif_view(study: Study, asked: AnsweredLimits | None = None) -> WalView:
    """The page, and what the terminal shows of it."""
    found = study.found
    recorded = format_bytes(found.wal_bytes)
    parts = [f"PostgreSQL {found.version}", f"{found.start} to {found.end}"]
    if found.recorded.seconds is not None and study.hours is not None:
        parts.append(format_duration(found.recorded.seconds))
    parts += [
        f"{found.recorded.records:,} records",
        f"{found.recorded.pages:,} pages",
        f"segments of {format_bytes(found.segment_size)}",
    ]
    sections = (
        Section("answer", "Answer", tuple(_answer(study, asked))),
        Section("asked", "Requested settings", tuple(_asked(study))),
        Section("curve", "WAL by max_wal_size", (*_figure(study), _curve(study), *_cliffs(study))),
        Section("timeouts", "WAL by max_wal_size and checkpoint_timeout", tuple(_timeouts(study))),
        Section("others", "Other settings of the same server", (_others(study), *_sample(study))),
        Section("sure", "How sure this is", tuple(_sure(study))),
    )
    return WalView(
        question=f"What would {recorded} of WAL be with other settings?",
        dateline=" · ".join(parts),
        sections=tuple(section for section in sections if section.blocks),
    )


def settings_text(target: Target) -> str:
    """``max_wal_size = 4GB, checkpoint_timeout = 15min``: as postgresql.conf takes it."""
    parts = []
    if target.max_wal_size_mb is not None:
        parts.append(_size_text(target))
    if target.checkpoint_timeout_s is not None:
        parts.append(_timeout_text(target))
    return ", ".join(parts)


def _size_text(target: Target) -> str:
    return f"max_wal_size = {_plain(size_label(target.max_wal_size_mb or 0))}"


def _timeout_text(target: Target) -> str:
    return f"checkpoint_timeout = {_plain(_timeout(target.checkpoint_timeout_s or 0))}"


def _plain(text: str) -> str:
    return text.replace(" ", "")


def _timeout(seconds: int) -> str:
    for factor, unit in ((3600, "h"), (60, "min")):
        if seconds % factor == 0:
            return f"{seconds // factor} {unit}"
    return f"{seconds} s"


def _unit(study: Study) -> str:
    return "/h" if study.hours is not None else ""


def _wal(study: Study, prediction: ServerPrediction) -> str:
    span = prediction.wal_span
    expected = f"{format_bytes(prediction.wal_bytes)}{_unit(study)}"
    return f"{expected} ({format_bytes(span.low)} to {format_bytes(span.high)})"


def _answer(study: Study, asked: AnsweredLimits | None) -> list[Block]:
    if asked is None:
        return []
    best, limits = asked.answer.prediction, asked.limits
    wanted = []
    if limits.wal_disk_bytes is not None:
        wanted.append(f"{format_bytes(limits.wal_disk_bytes)} of disk for pg_wal")
    if limits.wal_per_hour_bytes is not None:
        wanted.append(f"{format_bytes(limits.wal_per_hour_bytes)} of WAL an hour")
    if limits.recovery_s is not None:
        wanted.append(f"{format_duration(limits.recovery_s)} of recovery")
    blocks: list[Block] = [Paragraph(settings_text(best.target), terminal=True)]
    text = f"writes {_wal(study, best)}"
    saved = 1 - best.wal_bytes / study.recorded_bytes
    if abs(saved) >= 0.005:
        text += f", {percent(abs(saved))} {'less' if saved > 0 else 'more'} than was recorded"
    text += (
        f"; pg_wal takes {format_bytes(best.pg_wal_most)} at most, and recovery would read "
        f"{format_bytes(best.distance_most)} at most. Confidence: {best.confidence}."
    )
    if best.recovery_s is not None:
        text += f" The longest recovery takes {format_duration(best.recovery_s)}."
    if not asked.answer.is_within:
        text = f"No setting tried keeps within {say_list(wanted)}. The nearest one {text}"
    else:
        # With another timeout there may be less.
        timed = "" if best.target.checkpoint_timeout_s is None else f" at {_timeout_text(best.target)}"
        text = f"This keeps within {say_list(wanted)} with the least WAL{timed}. It {text}"
    blocks.append(Paragraph(text, terminal=True))
    blocks += [Paragraph(note, terminal=True) for note in asked.notes]
    return blocks


def _columns(study: Study, is_narrow: bool = False) -> tuple[Column, ...]:
    unit = _unit(study)
    return (
        Column(f"WAL{unit}", numeric=True),
        Column("from", numeric=True),
        Column("to", numeric=True),
        Column(f"images{unit}", numeric=True, terminal=not (is_narrow or study.has_recovery_times)),
        Column(f"checkpoints{unit}", numeric=True, terminal=not is_narrow),
        Column("spacing", numeric=True, terminal=False),
        Column("recovery", numeric=True),
        *([Column("takes", numeric=True)] if study.has_recovery_times else []),
        Column("pg_wal", numeric=True),
        Column("elasticity", numeric=True, terminal=False),
        Column("sure", numeric=True),
    )


def _row(prediction: ServerPrediction) -> list[str]:
    spacing = UNKNOWN if prediction.spacing_bytes is None else format_bytes(prediction.spacing_bytes)
    return [
        format_bytes(prediction.wal_bytes),
        format_bytes(prediction.wal_span.low),
        format_bytes(prediction.wal_span.high),
        f"{prediction.images:,.0f}",
        number(prediction.checkpoints),
        spacing,
        format_bytes(prediction.distance_most),
        *([] if prediction.recovery_s is None else [format_duration(prediction.recovery_s)]),
        format_bytes(prediction.pg_wal_most),
        UNKNOWN if prediction.elasticity is None else f"{prediction.elasticity:.2f}",
        prediction.confidence,
    ]


def _curve(study: Study) -> Table:
    present = study.question.present
    rows = []
    for prediction in study.curve(present.checkpoint_timeout_s):
        assert prediction.target.max_wal_size_mb is not None
        mark = " *" if prediction.target.max_wal_size_mb == present.max_wal_size_mb else ""
        rows.append(text_cells([size_label(prediction.target.max_wal_size_mb) + mark, *_row(prediction)]))
    known = "present" if study.question.is_present_known else "default; name the present one with --present"
    timeout = _timeout(present.checkpoint_timeout_s or 0)
    return Table(
        f"By max_wal_size, with checkpoint_timeout = {timeout}",
        (Column("max_wal_size"), *_columns(study)),
        tuple(rows),
        note=f"* {known}. Recorded: {format_bytes(study.recorded_bytes)}{_unit(study)} of WAL. "
        "\"recovery\": the most WAL that recovery would read after a crash. \"pg_wal\": its largest size, "
        "without slots, wal_keep_size or a lagging archiver. "
        + ("\"takes\": the longest recovery, warm cache. " if study.has_recovery_times else "")
        + "Elasticity: change of WAL in percent for one percent of max_wal_size.",
    )  # fmt: skip


def _cliffs(study: Study) -> list[Block]:
    cliffs = study.cliffs()
    if not cliffs:
        return []
    told = [
        f"from {size_label(cliff.smaller.target.max_wal_size_mb or 0)} to "
        f"{size_label(cliff.larger.target.max_wal_size_mb or 0)} {cliff.times:.1f} times"
        for cliff in cliffs
    ]
    steepest = cliffs[0]
    text = (
        f"A cliff: WAL falls {told[0]}, from {format_bytes(steepest.smaller.wal_bytes)} to "
        f"{format_bytes(steepest.larger.wal_bytes)}{_unit(study)}."
    )
    if told[1:]:
        text += f" It also falls steeply {say_list(told[1:])}."
    return [Paragraph(text, terminal=True)]


def _timeouts(study: Study) -> list[Block]:
    timeouts = study.timeouts()
    if len(timeouts) < 2:
        return []
    curves = [
        {prediction.target.max_wal_size_mb: prediction for prediction in study.curve(timeout)}
        for timeout in timeouts
    ]
    sizes = sorted({size for curve in curves for size in curve if size is not None})
    present = study.question.present
    rows = []
    for size in sizes:
        cells = []
        for timeout in timeouts:
            target = _sized(present, size, timeout)
            prediction = study.predictions.get(target)
            mark = " *" if target == present else ""
            cells.append(UNKNOWN if prediction is None else format_bytes(prediction.wal_bytes) + mark)
        rows.append(text_cells([size_label(size), *cells]))
    return [
        Table(
            f"WAL{_unit(study)} by checkpoint_timeout",
            (Column("max_wal_size"), *(Column(_timeout(timeout), numeric=True) for timeout in timeouts)),
            tuple(rows),
        )
    ]


def _sized(present: Target, size_mb: int, timeout_s: int) -> Target:
    return replace(present, max_wal_size_mb=size_mb, checkpoint_timeout_s=timeout_s)


def _asked(study: Study) -> list[Block]:
    if not study.question.asked:
        return []
    present = study.question.present
    rows = [
        text_cells([_difference(target, present), *_row(study.predictions[target])])
        for target in study.question.asked
    ]
    return [
        Table(
            "Requested settings",
            (Column("settings", whole_most=30), *_columns(study, is_narrow=True)),
            tuple(rows),
        )
    ]


def _difference(target: Target, present: Target) -> str:
    """The settings that differ from those of the server."""
    parts = []
    if target.max_wal_size_mb != present.max_wal_size_mb:
        parts.append(_size_text(target))
    if target.checkpoint_timeout_s != present.checkpoint_timeout_s:
        parts.append(_timeout_text(target))
    for name in ("checkpoint_completion_target", "wal_compression"):
        if getattr(target, name) != getattr(present, name):
            parts.append(f"{name} = {getattr(target, name)}")
    if target.min_wal_size_mb != present.min_wal_size_mb:
        parts.append(f"min_wal_size = {_plain(size_label(target.min_wal_size_mb))}")
    if target.full_page_writes != present.full_page_writes:
        parts.append(f"full_page_writes = {'on' if target.full_page_writes else 'off'}")
    if not target.hint_records:
        parts.append("hint bits not logged")
    return ", ".join(parts) or "as present"


def _others(study: Study) -> Table:
    rows = []
    told = study.told()
    for other in study.question.others():
        prediction = study.predictions[other]
        if prediction not in told:
            continue
        change = prediction.wal_bytes / study.present.wal_bytes - 1
        name = _difference(other, study.question.present)
        risk = DurabilityClass.NONE if other.full_page_writes else DurabilityClass.CORRUPT
        span = prediction.wal_span
        sizes = (format_bytes(size) for size in (prediction.wal_bytes, span.low, span.high))
        cells = text_cells([name, *sizes, f"{100 * change:+.0f} %", prediction.confidence])
        rows.append((*cells, class_cell(risk)))
    return Table(
        f"With {settings_text(study.question.present)}",
        (
            Column("setting", whole_most=30), Column(f"WAL{_unit(study)}", numeric=True),
            Column("from", numeric=True), Column("to", numeric=True), Column("change", numeric=True),
            Column("sure", numeric=True), Column("may lose"),
        ),
        tuple(rows),
        note="Against the same server with images compressed as recorded "
        f"({study.found.recorded.compression}). Without full-page images a page torn by a power cut cannot "
        "be repaired.",
    )  # fmt: skip


def _sample(study: Study) -> list[Block]:
    sample = study.found.sample
    if not sample.count:
        return []
    # The times are of more images than are counted: some were let go after they had been compressed.
    pglz_s = sample.methods["pglz"].seconds
    rows = [
        text_cells(
            [
                name,
                format_bytes(method.bytes / sample.count),
                f"{sample.plain_bytes / max(1, method.bytes):.2f} to 1",
                f"{method.seconds / pglz_s:.2f}" if pglz_s else UNKNOWN,
            ]
        )
        for name, method in sample.methods.items()
    ]
    return [
        Table(
            "The recording's images, compressed",
            (
                Column("method"), Column("bytes per image", numeric=True), Column("ratio", numeric=True),
                Column("time (pglz: 1)", numeric=True),
            ),
            tuple(rows),
            note=f"Measured on {sample.count:,} images of "
            f"{format_bytes(sample.plain_bytes / sample.count)} on average: evenly spaced ones of each "
            "relation. Times are those of walproof's compressors on this machine, or on the one where the "
            "recording was stripped.",
        )
    ]  # fmt: skip


def _sure(study: Study) -> list[Block]:
    agreement = study.found.recorded.agreement
    blocks: list[Block] = []
    if agreement.share is not None:
        text = (
            f"The rule for full-page images, applied to the recording's own checkpoints, explains "
            f"{100 * agreement.share:.2f} % of {agreement.images + agreement.bare:,} references."
        )
        blocks.append(Paragraph(text, terminal=True))
    blocks += [Paragraph(reason, terminal=True) for reason in recording_reasons(study)]
    told: dict[str, list[str]] = {}
    for prediction in study.curve(study.question.present.checkpoint_timeout_s):
        assert prediction.target.max_wal_size_mb is not None
        for reason in prediction_reasons(prediction):
            told.setdefault(reason, []).append(size_label(prediction.target.max_wal_size_mb))
    for reason, sizes in told.items():
        blocks.append(Paragraph(f"{', '.join(sizes)}: {reason}.", terminal=True))
    return blocks


def _is_same(heights: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two curves cannot be told apart."""
    return len(heights) == len(other) and all(
        abs(a - b) <= 0.005 * b for a, b in zip(heights, other, strict=True)
    )


def _figure(study: Study) -> tuple[Figure, ...]:
    present = study.question.present
    timeouts = study.timeouts()
    first = present.checkpoint_timeout_s or 0
    curves = []
    drawn: list[list[float]] = []
    for timeout in [first, *(timeout for timeout in timeouts if timeout != first)]:
        heights = [prediction.wal_bytes for prediction in study.curve(timeout)]
        if any(_is_same(heights, other) for other in drawn):
            continue
        drawn.append(heights)
        points = tuple(
            CurvePoint(
                prediction.target.max_wal_size_mb or 0, prediction.wal_bytes,
                prediction.wal_span.low, prediction.wal_span.high,
                prediction.distance_most, prediction.pg_wal_most,
            )
            for prediction in study.curve(timeout)
        )  # fmt: skip
        curves.append(Curve(_timeout(timeout), points))
    data = WalCurveData(
        _unit(study),
        tuple(curves),
        study.recorded_bytes,
        present.max_wal_size_mb if study.question.is_present_known else None,
        tuple(
            (cliff.smaller.target.max_wal_size_mb or 0, cliff.larger.target.max_wal_size_mb or 0)
            for cliff in study.cliffs()
        ),
    )
    found = study.found
    return (
        Figure(
            "curve",
            "How much WAL would be written with another max_wal_size?",
            "Each point is a simulated server; the band is the interval of the first line. Dotted line: "
            "the recorded WAL; dashed line: the present max_wal_size; orange stretch: a cliff. Timeouts "
            "that make no difference are not drawn.",
            f"PostgreSQL {found.version}, {found.start} to {found.end}, {found.recorded.records:,} records",
            data.describe(),
            data,
        ),
    )
