"""From a figure's data to SVG that stands in a page by itself: no script, no font, no address."""

from __future__ import annotations

import re
from html import escape
from typing import Any, assert_never

from walproof.errors import ReportError
from walproof.report.figures.course import CourseData, draw_course
from walproof.report.figures.figure import Figure, FigureData
from walproof.report.figures.fit import fit_texts
from walproof.report.figures.flame import FlameData, draw_flames
from walproof.report.figures.lag import LagData, draw_lag
from walproof.report.figures.latency import LatencyData, draw_latencies
from walproof.report.figures.load_curve import LoadCurveData, draw_load_curves
from walproof.report.figures.losses import LossData, draw_losses
from walproof.report.figures.measured import MeasuredData, draw_measured
from walproof.report.figures.outcomes import OutcomeData, draw_outcomes
from walproof.report.figures.ratios import RatioData, draw_ratios
from walproof.report.figures.seconds import SecondsData, draw_seconds
from walproof.report.figures.statements import StatementData, draw_statements
from walproof.report.figures.waits import WaitData, draw_waits
from walproof.report.figures.wal_curve import WalCurveData, draw_curve
from walproof.report.figures.wal_parts import WalPartsData, draw_parts
from walproof.report.figures.wal_rate import WalRateData, draw_rate
from walproof.report.figures.writers import WriterData, draw_writers
from walproof.report.plaintext import printable

_ROOT = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"[^>]*>')
_LABELED = re.compile(r'<(path|text|rect)\b([^>]*?) aria-label="([^"]*)"([^>]*?)(?:/>|></\1>)')
_CLIP = re.compile(r'(\bid="|url\(#)(clip\d+)')


def draw(data: FigureData) -> dict[str, Any]:
    """Vega-Lite specification of the chart, whatever its kind."""
    match data:
        case RatioData():
            return draw_ratios(data)
        case CourseData():
            return draw_course(data)
        case WaitData():
            return draw_waits(data)
        case LagData():
            return draw_lag(data)
        case FlameData():
            return draw_flames(data)
        case LatencyData():
            return draw_latencies(data)
        case SecondsData():
            return draw_seconds(data)
        case WalCurveData():
            return draw_curve(data)
        case WalPartsData():
            return draw_parts(data)
        case WalRateData():
            return draw_rate(data)
        case WriterData():
            return draw_writers(data)
        case StatementData():
            return draw_statements(data)
        case OutcomeData():
            return draw_outcomes(data)
        case LossData():
            return draw_losses(data)
        case MeasuredData():
            return draw_measured(data)
        case LoadCurveData():
            return draw_load_curves(data)
        case _:
            assert_never(data)


def to_svg(figure: Figure) -> str:
    """An inline <svg> element, with title, description and a tooltip per mark. Raises ReportError."""
    import vl_convert

    try:
        drawn: str = vl_convert.vegalite_to_svg(_cleaned(draw(figure.data)))
    except ValueError as error:
        raise ReportError(
            f'could not draw figure "{figure.id}"', detail=str(error).splitlines()[0]
        ) from error
    return _inline(figure, fit_texts(drawn))


def _cleaned(spec: Any) -> Any:
    """The specification with printable text only: at others vl-convert ends the whole process."""
    if isinstance(spec, str):
        return printable(spec)
    if isinstance(spec, dict):
        return {key: _cleaned(value) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [_cleaned(value) for value in spec]
    return spec


def _inline(figure: Figure, drawn: str) -> str:
    root = _ROOT.match(drawn)
    assert root is not None, drawn[:200]
    width, height = root[1], root[2]
    # Clip paths are numbered as the process goes: several charts in a page would share names, and the same
    # facts would give another page the next time.
    numbers: dict[str, int] = {}
    body = _CLIP.sub(
        lambda m: f"{m[1]}{figure.id}-clip{numbers.setdefault(m[2], len(numbers))}", drawn[root.end() :]
    )
    # What a mark says to a screen reader, a mouse may read too.
    body = _LABELED.sub(r'<\1\2 aria-label="\3"\4><title>\3</title></\1>', body)
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{figure.id}-title {figure.id}-desc">'
        f'<title id="{figure.id}-title">{escape(printable(figure.title))}</title>'
        f'<desc id="{figure.id}-desc">{escape(printable(figure.alt))}</desc>{body}'
    )
