"""Charts in other fonts than the one that they were laid out with: nothing is cut, nothing overlaps.

Measured in headless Chromium, in one page with the charts of a report of each kind.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from typing import Any

import pytest

from tests.golden.unpack import unpack
from tests.report.chromium import measure, with_script
from tests.report.facts import durability
from tests.report.kinds import every_figure
from walproof import report
from walproof.report.figures.draw import to_svg
from walproof.report.figures.figure import FigureData
from walproof.report.html import to_html
from walproof.report.view import build_view
from walproof.wal import stats

FONTS = ("Liberation Sans", "DejaVu Sans", "Liberation Mono")
"""Normal, wide and monospaced: a label of the last two is 10 to 25 % wider than laid out."""
_PACKAGES = "fonts-liberation and fonts-dejavu-core"
_MEASURE = """<script>
const style = document.createElement("style");
document.head.append(style);
const probe = document.createElement("span");
probe.textContent = "synchronous_commit=off";
document.body.append(probe);
const cut = (inner, outer) => inner.left < outer.left - 1 || inner.right > outer.right + 1
  || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
// A line's box has room above and below its letters, which may overlap.
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > a.height / 3;
const measured = {};
for (const font of FONTS) {
  style.textContent = `svg text, svg tspan, span { font-family: "${font}" !important; }`;
  const seen = measured[font] = {probe: probe.getBoundingClientRect().width, texts: 0, cut: [], overlap: []};
  for (const chart of document.querySelectorAll("svg.chart")) {
    const frame = chart.getBoundingClientRect();
    const lines = [...chart.querySelectorAll("text:not(:has(tspan)), tspan")]
      .filter(line => line.textContent.trim() !== "")
      .map(line => ({said: line.textContent, box: line.getBoundingClientRect()}));
    const symbols = [...chart.querySelectorAll(".role-legend-symbol path")]
      .map(symbol => ({said: "symbol", box: symbol.getBoundingClientRect()}));
    seen.texts += lines.length;
    for (const [at, line] of lines.entries()) {
      if (cut(line.box, frame)) seen.cut.push([chart.parentElement.id, line.said]);
      for (const other of [...lines.slice(0, at), ...symbols])
        if (meet(line.box, other.box)) seen.overlap.push([chart.parentElement.id, other.said, line.said]);
    }
  }
}
document.documentElement.dataset.measure = JSON.stringify(measured);
</script>"""


def _classes_of_figures() -> set[type]:
    """Every class of the reports that draws itself."""
    names = [module.name for module in pkgutil.walk_packages(report.__path__, "walproof.report.")]
    members = [member for name in names for member in vars(importlib.import_module(name)).values()]
    found = {member for member in members if isinstance(member, type) and hasattr(member, "draw")}
    return found - {FigureData}


@pytest.fixture(scope="module")
def measured(browser: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Font -> what was seen of every chart, in a copy of a report that holds them all."""
    folder = tmp_path_factory.mktemp("fonts")
    unpack(18, folder)
    figures = every_figure(stats(folder))
    assert {type(figure.data) for figure in figures} == _classes_of_figures()
    charts = "".join(f'<figure id="{figure.id}">{to_svg(figure)}</figure>' for figure in figures)
    page = folder / "report.html"
    facts = durability()
    page.write_text(
        to_html(build_view(facts.run, facts.trials, facts.series)).replace("</main>", f"{charts}</main>"),
        encoding="utf-8",
    )
    copy = with_script(page, "fonts.html", _MEASURE.replace("FONTS", str(list(FONTS))))
    seen: dict[str, Any] = measure(browser, copy)
    if len({width["probe"] for width in seen.values()}) < len(FONTS):
        if os.environ.get("CI") == "true":
            pytest.fail(f"the fonts look the same: CI needs {_PACKAGES}")
        pytest.skip(f"the fonts look the same: {_PACKAGES} are missing")
    return seen


@pytest.mark.parametrize("font", FONTS)
def test_no_text_is_cut(measured: dict[str, Any], font: str) -> None:
    assert measured[font]["texts"] > 500
    assert measured[font]["cut"] == []


@pytest.mark.parametrize("font", FONTS)
def test_no_text_overlaps_another_or_a_symbol_of_a_legend(measured: dict[str, Any], font: str) -> None:
    assert measured[font]["overlap"] == []
