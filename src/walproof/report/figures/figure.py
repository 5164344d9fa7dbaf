"""A figure: what it asks, in words, and its data. SVG is made of it in ``walproof.report.figures.draw``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


class FigureData(Protocol):
    """What a figure shows, as frozen values that draw and describe themselves."""

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        ...

    def describe(self) -> str:
        """What it shows, for a reader who cannot see it."""
        ...


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
