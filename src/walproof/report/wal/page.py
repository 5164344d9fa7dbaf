"""The page about a stretch of WAL: one HTML file that needs nothing else."""

from __future__ import annotations

from walproof import __version__
from walproof.report.html import environment
from walproof.report.wal.view import WalView


def to_html(view: WalView, command: str = "stats") -> str:
    """The page of ``walproof wal COMMAND``. Raises ReportError when a figure cannot be drawn."""
    template = environment().get_template("wal.html.j2")
    return template.render(view=view, version=__version__, kicker=f"wal {command}")
