"""Templates of the page; they override those of the reports."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from walproof import __version__
from walproof.report.html import environment
from walproof.report.numbers import size
from walproof.report.requests import say_request
from walproof.units import format_utc

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from starlette.responses import HTMLResponse

    from walproof.report.figures.figure import Figure

_CHARTS_MOST = 128
"""The most charts that are kept: drawing a chart takes much longer than the rest of a page."""


@functools.cache
def templates() -> Environment:
    """The templates. As in reports, everything is escaped."""
    from jinja2 import ChoiceLoader, PackageLoader

    above = PackageLoader("walproof", "web/templates")
    below = PackageLoader("walproof", "report/templates")
    made = environment().overlay(loader=ChoiceLoader([above, below]))
    made.globals = {
        **made.globals,
        "utc": format_utc,
        "walproof_version": __version__,
        "svg": _svg,
        "size": size,
        "say_request": say_request,
    }
    return made


@functools.lru_cache(maxsize=_CHARTS_MOST)
def _kept_svg(figure: Figure) -> Markup:
    return _drawn(figure)


def _drawn(figure: Figure) -> Markup:
    from markupsafe import Markup

    from walproof.report.figures.draw import to_svg

    return Markup(to_svg(figure))


def _svg(figure: Figure) -> Markup:
    """The figure drawn as in reports; a chart of the same facts is drawn once."""
    try:
        hash(figure)
    except TypeError:  # its data holds something that may change
        return _drawn(figure)
    return _kept_svg(figure)


def page(template: str, status: int = 200, /, **values: Any) -> HTMLResponse:
    """Render the template as an answer."""
    from starlette.responses import HTMLResponse

    return HTMLResponse(templates().get_template(template).render(**values), status)
