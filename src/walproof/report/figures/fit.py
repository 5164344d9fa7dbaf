"""Texts of a chart keep the room that they were laid out with, whatever font the reader has.

Vega places labels and legends by the widths of Liberation Sans, which vl-convert brings along (those of Arial
and Helvetica are the same). A browser draws them with what its machine has: DejaVu Sans, Verdana or a
monospaced font are 15 to 25 % wider, so that row labels were cut at the chart's edge and entries of a
legend ran into each other. More room for the widest font that we know would be taken from every chart, and
would not help against the next font. So each text says its own width (``textLength``), and a browser with
another font scales the glyphs to it; with one of the three fonts above nothing changes. Texts remain texts:
to select, to search, to be read aloud. The widths come from the engine that did the layout, so they are right
for every character and weight, and there is no table to keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import unescape
from typing import Any, NamedTuple

from walproof.report.figures.style import FONT

_ATTRIBUTES = r'((?:[^">]|"[^"]*")*)'
_TEXT = re.compile(rf"<text\b{_ATTRIBUTES}>(.*?)</text>", re.DOTALL)
_LINE = re.compile(rf"<tspan\b{_ATTRIBUTES}>([^<]*)</tspan>")
_SIZE = re.compile(r' font-size="([\d.]+)px"')
_WEIGHT = re.compile(r' font-weight="(\w+)"')
# A character that Liberation Sans lacks (◆ is one) makes the engine take another font for the whole line: it
# then leaves too much room, and the letters beside the character would be stretched to it.
_RUN = re.compile(r"[ -\u024f\u2010-\u2026]+|[^ -\u024f\u2010-\u2026]+")
_SPACE_EM = 569 / 2048


class _Run(NamedTuple):
    """Characters of one font, without spaces at their ends, which the engine would not count."""

    text: str
    size: float
    weight: str


def fit_texts(svg: str) -> str:
    """The chart with each line of text bound to the width that it was laid out with."""
    texts = [(match[1], match[2]) for match in _TEXT.finditer(svg)]
    widths = _measure({run for head, body in texts for line in _lines(body) for run in _runs(head, line)})

    def bound(head: str, line: str) -> str:
        runs = _runs(head, line)
        if not runs:
            return ""
        spaces = len(_shown(line)) - sum(len(run.text) for run in runs)
        width = sum(widths[run] for run in runs) + spaces * _SPACE_EM * runs[0].size
        return f' textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"'

    def fitted(match: re.Match[str]) -> str:
        head, body = match[1], match[2]
        if "<" not in body:
            return f"<text{head}{bound(head, body)}>{body}</text>"
        lines = _LINE.sub(lambda line: f"<tspan{line[1]}{bound(head, line[2])}>{line[2]}</tspan>", body)
        return f"<text{head}>{lines}</text>"

    return _TEXT.sub(fitted, svg)


def _lines(body: str) -> list[str]:
    return [line[2] for line in _LINE.finditer(body)] if "<" in body else [body]


def _shown(line: str) -> str:
    """The line as browsers draw it: one space where there are several."""
    return " ".join(unescape(line).split())


def _runs(head: str, line: str) -> list[_Run]:
    size, weight = _SIZE.search(head), _WEIGHT.search(head)
    assert size is not None, head
    pieces = (piece.strip() for piece in _RUN.findall(_shown(line)))
    return [_Run(piece, float(size[1]), weight[1] if weight else "normal") for piece in pieces if piece]


def _measure(runs: Iterable[_Run]) -> dict[_Run, float]:
    """Widths in pixels: the engine draws each run, and a box as wide as the bounds of that."""
    import vl_convert

    asked = sorted(runs)
    texts = {name: {"field": name} for name in _Run._fields}
    spec = {
        "data": [{"name": "runs", "values": [run._asdict() for run in asked]}],
        "marks": [
            {
                "type": "text",
                "name": "drawn",
                "from": {"data": "runs"},
                "encode": {
                    "enter": {
                        "text": texts["text"],
                        "fontSize": texts["size"],
                        "fontWeight": texts["weight"],
                        "font": {"value": FONT},
                    }
                },
            },
            {
                "type": "rect",
                "from": {"data": "drawn"},
                "encode": {"enter": {"width": {"signal": "datum.bounds.x2 - datum.bounds.x1"}}},
            },
        ],
    }
    drawn: Any = vl_convert.vega_to_scenegraph(spec)
    (frame,) = drawn["scenegraph"]["items"]
    (boxes,) = (marks["items"] for marks in frame["items"] if marks["marktype"] == "rect")
    return {run: box.get("width", 0.0) for run, box in zip(asked, boxes, strict=True)}
