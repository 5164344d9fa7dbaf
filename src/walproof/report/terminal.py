"""The report in a terminal, however wide: the answer, ratios as characters, main tables, verdicts, and at the
end, where a reader's eyes are, how sure the answer is, the answer again, and the next step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from walproof.report.blocks import Listing, Paragraph, Section, Table, TableCell, Verdicts
from walproof.report.dotplot import dot_plot
from walproof.report.figures.names import factors_of, levels_of
from walproof.report.figures.ratios import RatioData
from walproof.report.figures.style import SYMBOLS
from walproof.report.plaintext import one_line, printable, text_width
from walproof.report.variants import VARIANT
from walproof.settings.durability import DurabilityClass

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.table import Table as RichTable
    from rich.text import Text

    from walproof.report.layout import ReportView

_COLOURS = {
    DurabilityClass.NONE: "green",
    DurabilityClass.LAST_COMMITS: "blue",
    DurabilityClass.TABLE: "magenta",
    DurabilityClass.CORRUPT: "red",
}
_NAME_LEAST = 12
"""Characters that a name needs to stay distinct."""
_FRAME = 2
"""Characters between two columns of a table, and at both ends together."""
_SENTENCES_MOST = 2
"""Findings of a verdict: the effect and what limits it. The report has them all."""


def print_terminal(view: ReportView, console: Console) -> None:
    """Print the short form of the report; the last lines name the HTML report, which has the rest."""
    from rich.text import Text

    _print_head(view.question, view.dateline, console)
    _print_part("What was found", _found(view), console)
    console.print()
    for figure in view.overview:
        if isinstance(figure.data, RatioData):
            console.print(Text(printable(dot_plot(figure.data, console.width))))
            console.print()
    print_sections(view.sections, console)
    for group in view.verdicts:
        _print_verdicts(group, console)
    _print_end(view, console)


def print_page(question: str, dateline: str, sections: Sequence[Section], console: Console) -> None:
    """A page's question, what it is of, and its sections."""
    _print_head(question, dateline, console)
    print_sections(sections, console)


def _print_head(question: str, dateline: str, console: Console) -> None:
    from rich.text import Text

    console.print(Text(one_line(question), style="bold"))
    console.print(Text(one_line(dateline), style="dim"))
    console.print()


def print_sections(sections: Sequence[Section], console: Console) -> None:
    """The tables and paragraphs that are for the terminal."""
    from rich.text import Text

    for section in sections:
        for block in section.blocks:
            if isinstance(block, Table) and block.terminal:
                _print_table(block, console)
            elif isinstance(block, Paragraph) and block.terminal:
                console.print(Text(one_line(block.text)))
                console.print()


def _named_by_levels(table: Table) -> Table:
    """The table with the cells of a factorial study named by their levels, under the settings' names."""
    place = next((at for at, column in enumerate(table.columns) if column.title == VARIANT.title), None)
    factors = factors_of(row[place].text for row in table.rows) if place is not None else ()
    if place is None or not factors:
        return table
    columns, rows = list(table.columns), [list(row) for row in table.rows]
    room = max(columns[place].whole_most, *(len(factor) + 1 for factor in factors))
    columns[place] = replace(columns[place], title=", ".join(factors), whole_most=room)
    for row in rows:
        row[place] = replace(row[place], text=levels_of(row[place].text))
    return replace(table, columns=tuple(columns), rows=tuple(map(tuple, rows)))


def _print_table(whole: Table, console: Console) -> None:
    from rich.text import Text

    table = _named_by_levels(whole)
    kept = [index for index, column in enumerate(table.columns) if column.terminal]
    console.print(Text(one_line(table.title), style="bold"))
    for columns in _parts(table, kept, console.width):
        console.print(_drawn(table, columns, console.width))
    if table.note:
        console.print(Text(one_line(table.note), style="dim"))
    console.print()


def _parts(table: Table, kept: list[int], width: int) -> list[list[int]]:
    """The columns of each part; parts stand below each other. If the width allows, one part has all columns;
    otherwise every part begins with the column that names a row.

    So no figure is cut or broken.
    """
    if _fits(_least(table, kept), width) or _fits(_words(table, kept), width):
        return [kept]
    names = next((at for at, index in enumerate(kept) if table.columns[index].title == VARIANT.title), 0) + 1
    parts = [kept[:names]]
    for index in kept[names:]:
        if len(parts[-1]) > names and not _fits(_least(table, [*parts[-1], index]), width):
            parts.append(kept[:names])
        parts[-1].append(index)
    return parts


def _drawn(table: Table, columns: list[int], width: int) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for index, wide in zip(columns, _widths(table, columns, width), strict=True):
        column = table.columns[index]
        justify: JustifyMethod = "right" if column.numeric else "left"
        drawn.add_column(Text(column.title), justify=justify, overflow="fold", width=wide)
    for row in table.rows:
        drawn.add_row(*(_cell(row[index]) for index in columns))
    return drawn


def _widths(table: Table, columns: list[int], width: int) -> list[int]:
    """The width of every column: all it wants, or the widest columns shrink until all fit."""
    squeezed = [
        word if table.columns[index].numeric else min(_NAME_LEAST, word)
        for index, word in zip(columns, _words(table, columns), strict=True)
    ]
    # Where figures do not all fit beside each other, they wrap, too: names would be squeezed to nothing.
    floors = (_least(table, columns), _words(table, columns))
    least = next((floor for floor in floors if _fits(floor, width)), squeezed)
    given = [max(pair) for pair in zip(least, (_wanted(table, index) for index in columns), strict=True)]
    while not _fits(given, width):
        shrinking = [at for at, floor in enumerate(least) if given[at] > floor]
        if not shrinking:
            break
        # Texts before figures.
        widest = max(shrinking, key=lambda at: (not table.columns[columns[at]].numeric, given[at]))
        given[widest] -= 1
    return given


def _fits(widths: Sequence[int], width: int) -> bool:
    return sum(widths) + _FRAME * len(widths) <= width


def _least(table: Table, columns: Sequence[int]) -> list[int]:
    """Widths that keep names and figures whole, and the texts beside them readable."""
    return [
        _longest(table, index) if _is_fixed(table, index) else min(_NAME_LEAST, _longest_word(table, index))
        for index in columns
    ]


def _words(table: Table, columns: Sequence[int]) -> list[int]:
    return [_longest_word(table, index) for index in columns]


def _wanted(table: Table, index: int) -> int:
    """Width that keeps every value on one line; headings wrap."""
    if _is_fixed(table, index):
        return _longest(table, index)
    return max(text_width(_shown(row[index])) for row in table.rows) if table.rows else 1


def _is_fixed(table: Table, index: int) -> bool:
    return table.columns[index].numeric or index == 0


def _longest_word(table: Table, index: int) -> int:
    """Width that breaks no word."""
    texts = (table.columns[index].title, *(_shown(row[index]) for row in table.rows))
    return max((text_width(word) for text in texts for word in text.split()), default=1)


def _longest(table: Table, index: int) -> int:
    """Width that keeps the column's values on one line, as far as there is room; the heading wraps."""
    words = table.columns[index].title.split()
    most = table.columns[index].whole_most
    return min(most, max(text_width(text) for text in (*words, *(_shown(row[index]) for row in table.rows))))


def _shown(cell: TableCell) -> str:
    text = one_line(cell.text)
    return text if cell.durability is None else f"{SYMBOLS[cell.durability]} {text}"


def _cell(cell: TableCell) -> Text:
    from rich.text import Text

    if cell.durability is not None:
        return Text(_shown(cell), style=_COLOURS[cell.durability])
    return Text(_shown(cell))


def _print_verdicts(group: Verdicts, console: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(one_line(group.title), style="bold"))
    for verdict in group.verdicts:
        text = Text()
        if verdict.subject:
            text.append(one_line(verdict.subject), style="bold")
        if verdict.durability is not None:
            badge = f" [{SYMBOLS[verdict.durability]} {verdict.durability.value}]"
            text.append(badge, style=_COLOURS[verdict.durability])
        if text:
            text.append(": ")
        text.append(one_line(" ".join(verdict.sentences[:_SENTENCES_MOST])))
        console.print(Padding(text, (0, 0, 0, 2)))
    console.print()


def print_listing(listing: Listing, console: Console) -> None:
    """Print lines to paste: whole, and from the first column, where a here-document has to end."""
    from rich.text import Text

    console.print(Text(f"{listing.title}:", style="dim"))
    _print_whole(printable(listing.text), console)


def _print_whole(text: str, console: Console) -> None:
    """Print text that is to be copied: the terminal breaks its lines, and no line end is inserted."""
    from rich.text import Text

    console.print(Text(text), soft_wrap=True)


def _print_end(view: ReportView, console: Console) -> None:
    from rich.text import Text

    _print_part("How sure", view.how_sure, console)
    _print_part("What would make it surer", view.what_would_help, console)
    console.print()
    _print_part("What was found", _found(view), console)
    if view.next_commands:
        console.print(Text("Next", style="bold"))
    for next_ in view.next_commands:
        _print_whole(f"  {one_line(next_.command)}   # {next_.purpose}", console)


def _found(view: ReportView) -> list[str]:
    return [f"{answer.title}: {' '.join(answer.sentences)}" for answer in view.answers]


def _print_part(title: str, lines: Sequence[str], console: Console) -> None:
    from rich.padding import Padding
    from rich.text import Text

    if lines:
        console.print(Text(title, style="bold"))
        for line in lines:
            console.print(Padding(Text(one_line(line)), (0, 0, 0, 2)))
