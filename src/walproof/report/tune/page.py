"""A tuning as a single, self-contained HTML file, and as Markdown."""

from __future__ import annotations

from walproof import __version__
from walproof.report.html import environment
from walproof.report.markdown import sections_to_markdown
from walproof.report.tune.view import TuneView


def to_html(view: TuneView) -> str:
    """The page of ``walproof tune``. Raises ReportError when a figure cannot be drawn."""
    template = environment().get_template("wal.html.j2")
    return template.render(view=view, version=__version__, kicker="tune")


def to_markdown(view: TuneView) -> str:
    """The same as Markdown, for a ticket or a wiki."""
    return sections_to_markdown(view.question, view.dateline, view.sections)
