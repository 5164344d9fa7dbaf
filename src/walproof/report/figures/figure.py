"""A figure: what it asks, in words, and its data. Drawing is apart (``walproof.report.figures.draw``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from walproof.report.figures.course import CourseData
from walproof.report.figures.flame import FlameData
from walproof.report.figures.lag import LagData
from walproof.report.figures.latency import LatencyData
from walproof.report.figures.load_curve import LoadCurveData
from walproof.report.figures.losses import LossData
from walproof.report.figures.measured import MeasuredData
from walproof.report.figures.outcomes import OutcomeData
from walproof.report.figures.ratios import RatioData
from walproof.report.figures.seconds import SecondsData
from walproof.report.figures.statements import StatementData
from walproof.report.figures.waits import WaitData
from walproof.report.figures.wal_curve import WalCurveData
from walproof.report.figures.wal_parts import WalPartsData
from walproof.report.figures.wal_rate import WalRateData
from walproof.report.figures.writers import WriterData

FigureData: TypeAlias = (
    RatioData
    | CourseData
    | WaitData
    | LagData
    | FlameData
    | LatencyData
    | SecondsData
    | WalCurveData
    | WalPartsData
    | WalRateData
    | WriterData
    | StatementData
    | OutcomeData
    | LossData
    | MeasuredData
    | LoadCurveData
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart as data."""

    id: str
    title: str
    """The question that it answers."""
    note: str
    """How to read it."""
    caption: str
    """n, machine, disk, version, seed, run."""
    alt: str
    """What it shows, for a reader who cannot see it."""
    data: FigureData
