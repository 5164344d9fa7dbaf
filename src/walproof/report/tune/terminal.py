"""A tuning in the terminal: the answer, the lines to paste, what limits ruled out, the race in brief."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walproof.report.blocks import Listing, Paragraph, Section
from walproof.report.dotplot import dot_plot
from walproof.report.figures.figure import Figure
from walproof.report.figures.ratios import RatioData
from walproof.report.plaintext import one_line
from walproof.report.terminal import print_listing, print_sections
from walproof.report.tune.view import TuneView

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN = ("answer", "lines", "limits", "race", "crashes", "hosts", "now")


def print_tuning(view: TuneView, console: Console) -> None:
    """Print everything but long lists, which are in the page and in JSON."""
    from rich.text import Text

    console.print(Text(view.question, style="bold"))
    console.print(Text(one_line(view.dateline), style="dim"))
    console.print()
    for section in view.sections:
        if section.id not in _SHOWN:
            continue
        if section.id != "answer":
            console.print(Text(one_line(section.title), style="bold"))
        for block in section.blocks:
            if isinstance(block, Listing):
                print_listing(block, console)
            elif isinstance(block, Figure):
                if isinstance(block.data, RatioData):
                    console.print(Text(dot_plot(block.data, console.width)))
                    console.print()
            elif isinstance(block, Paragraph):
                if block.terminal:
                    console.print(Text(one_line(block.text)))
            else:
                print_sections((Section(section.id, section.title, (block,)),), console)
        console.print()
    for note in (*view.asked.left_out, *view.asked.notes, *view.facts.notes):
        console.print(Text(one_line(note), style="dim"))
