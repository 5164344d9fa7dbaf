"""The charts of ratios, which studies of load, of replay and of loading have in common."""

from __future__ import annotations

from walproof.analysis.summary import Analysis
from walproof.facts import Plan
from walproof.report.cells import Cells
from walproof.report.figures.figure import Figure
from walproof.report.figures.ratios import (
    factor_ratios,
    install_ratios,
    means_over,
    single_of,
    variant_ratios,
)
from walproof.report.layout import FigureMaker


def _marks(plan: Plan) -> str:
    mean = f"Diamond: geometric mean over {means_over(plan)}; bar: its interval"
    return f"{mean}; circle: the ratio of one {single_of(plan)}"


def variant_figure(
    make: FigureMaker, cells: Cells, analysis: Analysis, question: str, reading: str
) -> tuple[Figure, ...]:
    """Every variant against the baseline; ``reading`` continues after the meaning of the marks."""
    note = f"{_marks(cells.plan)}{reading}"
    return make.figure("ratios", question, note, variant_ratios(cells, analysis))


def factor_figure(make: FigureMaker, cells: Cells, analysis: Analysis, question: str) -> tuple[Figure, ...]:
    """The terms of the factorial model."""
    note = (
        "Diamond: effect of a level against the factor's first level; "
        "a product of two: what both together do beyond each."
    )
    return make.figure("factors", question, note, factor_ratios(cells, analysis.factors))


def install_figure(make: FigureMaker, cells: Cells, analysis: Analysis, question: str) -> tuple[Figure, ...]:
    """Later installs against the first."""
    return make.figure("installs", question, f"{_marks(cells.plan)}.", install_ratios(cells, analysis))
