"""Advice as one HTML file that needs nothing else, and as Markdown."""

from __future__ import annotations

from walproof import __version__
from walproof.report.advice.fleet import FleetView
from walproof.report.advice.view import AdviceView
from walproof.report.html import environment
from walproof.report.markdown import sections_to_markdown


def to_html(view: AdviceView | FleetView) -> str:
    """The page of ``walproof advise``."""
    template = environment().get_template("wal.html.j2")
    return template.render(view=view, version=__version__, kicker="advise")


def to_markdown(view: AdviceView | FleetView) -> str:
    """The same as Markdown, for a ticket or a wiki."""
    return sections_to_markdown(view.question, view.dateline, view.sections)
