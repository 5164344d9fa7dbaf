"""Advice in the terminal: the table, then each piece with its evidence, then the lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walproof.report.advice.fleet import FleetView
from walproof.report.advice.view import AdviceView
from walproof.report.blocks import Listing, Paragraph, Section
from walproof.report.plaintext import one_line
from walproof.report.terminal import print_listing, print_page, print_sections

if TYPE_CHECKING:
    from rich.console import Console


def print_advice(view: AdviceView | FleetView, console: Console) -> None:
    """Everything except the long lists, which are in HTML, Markdown and JSON."""
    if isinstance(view, FleetView):
        _print_several(view, console)
    else:
        _print_one(view, console)


def _print_several(view: FleetView, console: Console) -> None:
    """The advice of each server under its name, and the answer for all at the end, where eyes are."""
    from rich.rule import Rule
    from rich.text import Text

    for member in view.members:
        if member.view is not None:
            console.print(Rule(Text(one_line(member.name), style="bold"), align="left"))
            _print_one(member.view, console)
            console.print()
    console.print(Rule(align="left"))
    print_page(view.question, view.dateline, (view.overview,), console)


def _print_one(view: AdviceView, console: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(view.question, style="bold"))
    console.print(Text(one_line(view.dateline), style="dim"))
    console.print()
    for section in view.sections:
        if section.id in ("fine", "unseen"):
            continue
        if section.id != "answer":
            console.print(Text(one_line(section.title), style="bold"))
        for block in section.blocks:
            if isinstance(block, Listing):
                if section.id == "lines" or block.title == "Steps":
                    print_listing(block, console)
            elif isinstance(block, Paragraph) and (block.terminal or section.id == "lines"):
                console.print(
                    Padding(Text(one_line(block.text)), (0, 0, 0, 2 if section.id != "answer" else 0))
                )
            else:
                print_sections((Section(section.id, section.title, (block,)),), console)
        console.print()
    if view.fine:
        console.print(Text("Fine: " + ", ".join(rule.rule for rule in view.fine), style="dim"))
    for unseen in view.unseen:
        console.print(Text(f"Not looked at: {unseen.rule}: {one_line(unseen.reason)}", style="dim"))
    if view.absent:
        console.print(Text(f"Nothing to look at for {one_line(view.absent_text)}", style="dim"))
    for note in view.notes:
        console.print(Text(one_line(note), style="dim"))
