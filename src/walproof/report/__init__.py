"""Facts in, documents out: one view, four forms.

``build_view`` analyses the facts of a run and lays them out; ``to_html``, ``to_markdown``, ``to_json``
and ``print_terminal`` show the same view. Offline: no server, no clock, no files but the page's template.
"""

from walproof.report.html import to_html
from walproof.report.json import to_json
from walproof.report.kinds.throughput import throughput_view
from walproof.report.layout import ReportView
from walproof.report.markdown import to_markdown
from walproof.report.terminal import print_terminal
from walproof.report.view import SERIES_SHOWN, build_view

__all__ = [
    "SERIES_SHOWN",
    "ReportView",
    "build_view",
    "print_terminal",
    "throughput_view",
    "to_html",
    "to_json",
    "to_markdown",
]
