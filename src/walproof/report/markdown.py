"""The report as Markdown with GitHub's tables, for a ticket or a wiki. Charts are text or tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, assert_never

from walproof.report.blocks import Block, Listing, Paragraph, Section, Table, TableCell, Verdicts
from walproof.report.dotplot import dot_plot
from walproof.report.figures.figure import Figure
from walproof.report.figures.ratios import RatioData
from walproof.report.figures.style import SYMBOLS
from walproof.report.plaintext import one_line, printable

if TYPE_CHECKING:
    from walproof.report.layout import ReportView

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#])")
_URL = re.compile(r"(https?|www)(?=[:.])", re.IGNORECASE)


def to_markdown(view: ReportView) -> str:
    """The whole report. Every text from outside is escaped: it cannot become markup, HTML or a link."""
    parts = [f"# {escape(view.question)}", escape(view.dateline), "## Answer"]
    for answer in view.answers:
        parts.append(
            "\n".join([f"**{escape(answer.title)}**", "", *(f"- {escape(s)}" for s in answer.sentences)])
        )
    parts.append(_list("**How sure**", view.how_sure))
    if view.what_would_help:
        parts.append(_list("**What would make it surer**", view.what_would_help))
    for figure in view.overview:
        parts += _figure(figure)
    if view.verdicts:
        parts.append("## Verdicts")
    for group in view.verdicts:
        parts += _block(group)
    return "\n\n".join([*parts, *_sections(view.sections)]) + "\n"


def sections_to_markdown(question: str, dateline: str, sections: Sequence[Section]) -> str:
    """A page of a question, a dateline and sections."""
    return "\n\n".join([f"# {escape(question)}", escape(dateline), *_sections(sections)]) + "\n"


def _sections(sections: Sequence[Section]) -> list[str]:
    parts = []
    for section in sections:
        parts.append(f"## {escape(section.title)}")
        for block in section.blocks:
            parts += _block(block)
    return parts


def escape(text: str) -> str:
    """Text that shows as it is, on one line."""
    shown = _SPECIAL.sub(r"\\\1", one_line(text))
    return _URL.sub(lambda match: match[0][:1] + "\u2060" + match[0][1:], shown)


def _linked(paragraph: Paragraph) -> str:
    shown = escape(paragraph.text)
    for link in dict.fromkeys(paragraph.links):
        shown = shown.replace(escape(link), f"<{link}>")
    return shown


def _list(title: str, lines: tuple[str, ...]) -> str:
    return "\n".join([title, "", *(f"- {escape(line)}" for line in lines)])


def _block(block: Block) -> list[str]:
    match block:
        case Table():
            return _table(block)
        case Paragraph():
            return [_linked(block)]
        case Listing():
            return [f"**{escape(block.title)}**", fenced(block.text)]
        case Verdicts():
            lines = []
            for verdict in block.verdicts:
                subject = f"**{escape(verdict.subject)}**" if verdict.subject else ""
                if verdict.durability is not None:
                    subject += f" [{SYMBOLS[verdict.durability]} {verdict.durability.value}]"
                lines += (
                    [f"- {subject}: ".lstrip(": ") + " ".join(map(escape, verdict.sentences))]
                    if subject
                    else [f"- {escape(sentence)}" for sentence in verdict.sentences]
                )
            return [f"**{escape(block.title)}**", "\n".join(lines)]
        case Figure():
            return _figure(block)
        case _:
            assert_never(block)


def _figure(figure: Figure) -> list[str]:
    if not isinstance(figure.data, RatioData):
        return []  # The tables beside it hold its numbers.
    return [
        f"**{escape(figure.title)}**",
        fenced(dot_plot(figure.data)),
        f"*{escape(figure.caption)}*",
    ]


def _table(table: Table) -> list[str]:
    lines = [
        "| " + " | ".join(escape(column.title) for column in table.columns) + " |",
        "|" + "|".join("---:" if column.numeric else "---" for column in table.columns) + "|",
        *("| " + " | ".join(map(_cell, row)) + " |" for row in table.rows),
    ]
    parts = [f"### {escape(table.title)}", "\n".join(lines)]
    return parts if table.note is None else [*parts, escape(table.note)]


def _cell(cell: TableCell) -> str:
    if cell.durability is not None:
        return f"{SYMBOLS[cell.durability]} {escape(cell.text)}"
    return escape(cell.text) or " "


def fenced(text: str) -> str:
    """A code block whose fence no line of the text can close."""
    shown = printable(text).rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{shown}\n{fence}"
