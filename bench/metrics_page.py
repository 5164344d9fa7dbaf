"""Makes the tables of docs/metrics.md from the table of metrics, src/walproof/facts/metrics.csv.

    make docs

The page has a chapter for each writer, and a place in it for what that writes; all other text is the page's
own. tests/facts/test_metrics_page.py fails when a table is another than this makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from walproof.facts.metrics import Form, metrics

TARGET = Path(__file__).parent.parent / "docs/metrics.md"
_PLACE = re.compile(r"(<!-- metrics: ([^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_MARKS = {Form.METRIC: "", Form.SERIES: " *series*", Form.BOTH: " *and series*"}


def places(page: str) -> tuple[str, ...]:
    """The writers for which the page has a place, in its order."""
    return tuple(match[2] for match in _PLACE.finditer(page))


def with_tables(page: str) -> str:
    """The page with every table as the metrics are declared now."""
    return _PLACE.sub(lambda match: match[1] + "\n".join(_written_by(match[2])) + "\n" + match[3], page)


def _written_by(writer: str) -> Iterator[str]:
    elsewhere = [_code(metric.name) for metric in metrics() if writer in metric.writers[1:]]
    if elsewhere:
        yield f"\nIt has {', '.join(elsewhere)}, which other chapters describe, and:"
    yield "\n| name | unit | meaning | source |\n|---|---|---|---|"
    for metric in metrics():
        if metric.writers[0] == writer:
            cells = (
                _code(metric.name) + _MARKS[metric.form],
                metric.unit or metric.kind.value,
                metric.meaning,
                metric.source,
            )
            # A cell ends at a bare bar, even within code.
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _code(name: str) -> str:
    return f"`{name}`"


if __name__ == "__main__":
    TARGET.write_text(with_tables(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
    print(TARGET)
