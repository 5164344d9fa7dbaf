"""The report as one HTML file that needs nothing else: no network, no script, no font."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from walproof.report.figures.style import CLASS_COLOURS, FAINT, GRID, INK, SYMBOLS
from walproof.report.plaintext import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from walproof.report.layout import ReportView


_BREAKS = re.compile(r"(?<=[=_:])(?=\w)")


def to_html(view: ReportView) -> str:
    """The page. Raises ReportError when a figure cannot be drawn."""
    return environment().get_template("report.html.j2").render(view=view)


def environment() -> Environment:
    """Templates that escape everything, with the functions that draw figures and tables."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from walproof.report.figures.draw import to_svg
    from walproof.report.figures.figure import Figure

    made = Environment(
        loader=PackageLoader("walproof", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        ),
    )

    def svg(figure: Figure) -> Markup:
        # Vega escapes every text of the chart, and draw.py those that it adds.
        return Markup(to_svg(figure))

    made.globals.update(
        svg=svg,
        symbols=SYMBOLS,
        class_colours=CLASS_COLOURS,
        chart_colours={"ink": INK, "faint": FAINT, "grid": GRID},
        breakable=_breakable,
        zip=zip,
        kind=lambda block: type(block).__name__,
    )
    return made


def _breakable(text: str) -> Markup:
    """The text, escaped, with places where a long name may go on to the next line of a cell."""
    from markupsafe import Markup, escape

    return Markup("<wbr>").join(escape(part) for part in _BREAKS.split(printable(text)))
