"""From a figure's data to SVG that stands in a page by itself: no script, no font, no address."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from walproof.errors import ReportError, first_line
from walproof.report.figures.figure import Figure
from walproof.report.figures.fit import fit_texts
from walproof.report.plaintext import printable

_ROOT = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"[^>]*>')
_LABELED = re.compile(r'<(path|text|rect)\b([^>]*?) aria-label="([^"]*)"([^>]*?)(?:/>|></\1>)')
_CLIP = re.compile(r'(\bid="|url\(#)(clip\d+)')


def to_svg(figure: Figure) -> str:
    """An inline <svg> element, with title, description and a tooltip per mark. Raises ReportError."""
    import vl_convert

    try:
        drawn: str = vl_convert.vegalite_to_svg(_cleaned(figure.data.draw()))
    except ValueError as error:
        raise ReportError(f'could not draw figure "{figure.id}"', detail=first_line(error)) from error
    return _inline(figure, fit_texts(drawn))


def _cleaned(spec: Any) -> Any:
    """The specification with printable text only: at others vl-convert ends the whole process."""
    if isinstance(spec, str):
        return printable(spec)
    if isinstance(spec, dict):
        return {key: _cleaned(value) for key, value in spec.items()}
    if isinstance(spec, (list, tuple)):
        return [_cleaned(value) for value in spec]
    return spec


def _inline(figure: Figure, drawn: str) -> str:
    root = _ROOT.match(drawn)
    assert root is not None, drawn[:200]
    width, height = root[1], root[2]
    # Clip paths are numbered as the process goes: several charts in a page would share names, and the same
    # facts would give another page the next time.
    numbers: dict[str, int] = {}
    body = _CLIP.sub(
        lambda m: f"{m[1]}{figure.id}-clip{numbers.setdefault(m[2], len(numbers))}", drawn[root.end() :]
    )
    # What a mark says to a screen reader, a mouse may read too.
    body = _LABELED.sub(r'<\1\2 aria-label="\3"\4><title>\3</title></\1>', body)
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-labelledby="{figure.id}-title {figure.id}-desc">'
        f'<title id="{figure.id}-title">{escape(printable(figure.title))}</title>'
        f'<desc id="{figure.id}-desc">{escape(printable(figure.alt))}</desc>{body}'
    )
