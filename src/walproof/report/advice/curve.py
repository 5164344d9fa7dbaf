"""WAL per hour and time away by max_wal_size: where the server is, and where it should be."""

from __future__ import annotations

from typing import Any

from walproof.advise.server.rules import Advised
from walproof.advise.server.sizing import Choice, choice
from walproof.analysis.whatif import ServerPrediction, Study
from walproof.report.blocks import Column, Paragraph, Section, Table, TableCell, text_cells
from walproof.report.figures.figure import Figure
from walproof.report.figures.wal_curve import Curve, CurvePoint, WalCurveData, size_label
from walproof.report.numbers import UNKNOWN
from walproof.units import format_bytes, format_duration, parse_bytes


def curve_section(advised: Advised) -> Section | None:
    """The figure and its points as a table; None where no WAL was recorded, or hardly any."""
    study = advised.case.whatif
    if study is None or not advised.case.writes:
        return None
    points = _points(study, advised_mb(advised))
    if len(points) < 2:
        return None
    blocks = (_figure(study, points, advised), *_told(study, points, advised))
    return Section("curve", "What another max_wal_size would do", blocks)


def curve_json(advised: Advised) -> dict[str, Any] | None:
    """The same for machines: bytes and seconds."""
    section = curve_section(advised)
    study = advised.case.whatif
    if section is None or study is None:
        return None
    _, unit = _rate(study)
    other = _other(advised)
    return {
        "unit": f"bytes{unit}",
        "checkpoint_timeout_s": study.question.present.checkpoint_timeout_s,
        "present_mb": study.question.present.max_wal_size_mb,
        "advised_mb": advised_mb(advised),
        "points": [_point_json(study, point) for point in _points(study, advised_mb(advised))],
        "advised": None if other is None else {
            "checkpoint_timeout_s": other.prediction.target.checkpoint_timeout_s,
            **_point_json(study, other.prediction),
            "max_wal_size_mb": other.size_mb,
        },
    }  # fmt: skip


def _point_json(study: Study, point: ServerPrediction) -> dict[str, Any]:
    scale, _ = _rate(study)
    return {
        "max_wal_size_mb": point.target.max_wal_size_mb,
        "wal": point.wal_bytes * scale,
        "low": point.wal_span.low * scale,
        "high": point.wal_span.high * scale,
        "whole_cycles": point.cycles,
        "recovery_bytes_most": point.distance_most,
        "recovery_s": point.recovery_s,
        "pg_wal_bytes_most": point.pg_wal_most,
        "sure": point.confidence,
    }


def advised_mb(advised: Advised) -> int | None:
    """The advised max_wal_size; None if none is advised."""
    for advice in advised.advice:
        for change in advice.changes:
            if change.name == "max_wal_size":
                return parse_bytes(change.value) >> 20
    return None


def _other(advised: Advised) -> Choice | None:
    """What is advised, where it has another checkpoint_timeout than the curve."""
    study, case = advised.case.whatif, advised.case
    if study is None or not any(advice.rule == "max_wal_size" for advice in advised.advice):
        return None
    found = choice(study, case.sized_limits)
    now_s = study.question.present.checkpoint_timeout_s
    return None if found is None or found.prediction.target.checkpoint_timeout_s == now_s else found


def _rate(study: Study) -> tuple[float, str]:
    """The factor for amounts of a prediction, and the unit that results."""
    return 1.0, "" if study.hours is None else "/h"


def _points(study: Study, wanted_mb: int | None) -> list[ServerPrediction]:
    """Sizes that differ in this recording, with the advised one."""
    return study.curve(study.question.present.checkpoint_timeout_s, wanted_mb)


def _figure(study: Study, points: list[ServerPrediction], advised: Advised) -> Figure:
    scale, unit = _rate(study)
    other = _other(advised)
    curves = [_curve(points, study.question.present.checkpoint_timeout_s, scale)]
    second = ""
    if other is not None:
        timeout_s = other.prediction.target.checkpoint_timeout_s
        curves.append(_curve(study.curve(timeout_s, other.size_mb), timeout_s, scale))
        second = f", on the line of checkpoint_timeout = {format_duration(timeout_s or 0)}"
    data = WalCurveData(
        unit,
        tuple(curves),
        study.recorded_bytes * scale,
        study.question.present.max_wal_size_mb,
        tuple(
            (cliff.smaller.target.max_wal_size_mb or 0, cliff.larger.target.max_wal_size_mb or 0)
            for cliff in study.cliffs()
        ),
        advised_mb(advised) if other is None else other.size_mb,
    )
    return Figure(
        "advice-curve",
        "How much WAL would this load write with another max_wal_size, and how long would a crash take?",
        "A point is a simulated server; the band is the expected range. Dashed line: today's max_wal_size; "
        f"green: the advised one{second}; dotted: what was recorded; orange stretch: a cliff.",
        f"PostgreSQL {advised.case.window.version}, {format_bytes(study.found.wal_bytes)} of WAL",
        data.describe(),
        data,
    )


def _curve(points: list[ServerPrediction], timeout_s: int | None, scale: float) -> Curve:
    return Curve(
        format_duration(timeout_s or 0),
        tuple(
            CurvePoint(
                point.target.max_wal_size_mb or 0, point.wal_bytes * scale, point.wal_span.low * scale,
                point.wal_span.high * scale, point.distance_most, point.pg_wal_most, point.recovery_s,
            )
            for point in points
        ),
    )  # fmt: skip


def _told(study: Study, points: list[ServerPrediction], advised: Advised) -> list[Table | Paragraph]:
    scale, unit = _rate(study)
    present = study.question.present
    other = _other(advised)
    marks = {present.max_wal_size_mb: "now"}
    if other is None:
        marks[advised_mb(advised)] = "advised"
    is_timed = any(point.recovery_s is not None for point in points)

    def cells(point: ServerPrediction, label: str, mark: str) -> tuple[TableCell, ...]:
        return text_cells(
            (
                label,
                mark,
                format_bytes(point.wal_bytes * scale) + unit,
                f"{format_bytes(point.wal_span.low * scale)}{unit} and "
                f"{format_bytes(point.wal_span.high * scale)}{unit}",
                *((_away(point),) if is_timed else ()),
                format_bytes(point.distance_most),
                point.confidence,
            )
        )

    rows = [
        cells(
            point, size_label(point.target.max_wal_size_mb or 0), marks.get(point.target.max_wal_size_mb, "")
        )
        for point in points
    ]
    if other is not None:
        timeout = format_duration(other.prediction.target.checkpoint_timeout_s or 0)
        rows.append(cells(other.prediction, f"{size_label(other.size_mb or 0)}, {timeout}", "advised"))
    columns = (
        Column("max_wal_size"), Column(""), Column("WAL", numeric=True),
        Column("expected between", numeric=True, whole_most=30),
        *((Column("time away", numeric=True),) if is_timed else ()),
        Column("recovery reads", numeric=True), Column("sure"),
    )  # fmt: skip
    beyond = [point for point in points if not point.has_whole_cycles]
    note = (
        '"time away": the longest crash recovery, with a warm cache; "recovery reads": the most WAL it reads.'
        if is_timed
        else '"recovery reads": the most WAL that a crash recovery reads.'
    )
    timeout = format_duration(present.checkpoint_timeout_s or 0)
    found: list[Table | Paragraph] = [
        Table(
            f"checkpoint_timeout = {timeout}" + (" where a row names no other" if other is not None else ""),
            columns,
            tuple(rows),
            note=note,
        )
    ]
    if not any(point.by_size_share for point in points):
        found.append(
            Paragraph(
                "Every checkpoint begins because of checkpoint_timeout here, so another max_wal_size "
                "changes nothing: the differences between the rows are within the model's error.",
                terminal=True,
            )
        )
    if beyond:
        least = size_label(beyond[0].target.max_wal_size_mb or 0)
        found.append(
            Paragraph(
                f"From {least} on a checkpoint cycle is longer than the recording: WAL is an upper bound "
                "there, and the range says how much less it may be.",
                terminal=True,
            )
        )
    return found


def _away(prediction: ServerPrediction) -> str:
    return UNKNOWN if prediction.recovery_s is None else format_duration(prediction.recovery_s)
