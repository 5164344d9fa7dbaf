"""A tuning as a single, self-contained HTML file."""

from __future__ import annotations

from walproof import __version__
from walproof.report.html import environment
from walproof.report.tune.view import TuneView


def to_html(view: TuneView) -> str:
    """The page of ``walproof tune``. Raises ReportError when a figure cannot be drawn."""
    template = environment().get_template("wal.html.j2")
    return template.render(view=view, version=__version__, kicker="tune")
