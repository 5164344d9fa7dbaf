"""The page in a real browser: headless Chromium opens the file, with no network to ask.

Skipped where there is no Chromium, except in CI, where a missing browser is a failure.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.report.chromium import measure, run, with_script
from tests.report.facts import durability, hostile_facts
from walproof.report.html import to_html
from walproof.report.view import build_view

_MEASURE = """<script>
const page = document.documentElement, right = page.clientWidth;
const out = [...document.querySelectorAll("main *")].filter(e => {
  if (e.closest("svg") && e.tagName !== "svg") return false;
  if (e.closest(".table, .drawing svg, pre")) return false;
  return e.getBoundingClientRect().right > right + 1;
});
page.dataset.measure = JSON.stringify({
  client: right, scroll: page.scrollWidth, out: out.map(e => e.outerHTML.slice(0, 80)),
  tables: [...document.querySelectorAll(".table")].filter(t => t.scrollWidth > t.clientWidth + 1)
    .map(t => t.querySelector("caption").textContent),
  charts: [...document.querySelectorAll("svg.chart")].map(s => s.getBoundingClientRect().height),
});
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory, durability())


def _write(tmp_path_factory: pytest.TempPathFactory, facts: object) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(to_html(build_view(facts.run, facts.trials, facts.series)), encoding="utf-8")  # type: ignore[attr-defined]
    return path


def test_browser_builds_every_section(browser: str, page: Path) -> None:
    dom = run(browser, page, "--dump-dom").stdout
    sections = re.findall(r'<section id="([a-z]+)">', dom)
    assert sections[:3] == ["answer", "verdicts", "results"]
    assert sections[-1] == "repeat"
    assert dom.count("<svg class=") == 5
    assert dom.rstrip().endswith("</html>")


def test_browser_has_nothing_to_complain_about(browser: str, page: Path) -> None:
    """No console line from the page; a copy that logs an error shows that one would be seen."""
    assert "CONSOLE" not in run(browser, page, "--dump-dom").stderr
    loud = with_script(page, "loud.html", "<script>console.error('heard')</script>")
    assert "heard" in run(browser, loud, "--dump-dom").stderr


def test_screenshot_is_not_blank(browser: str, page: Path, tmp_path: Path) -> None:
    """A blank page of the same size is the measure."""
    blank = tmp_path / "blank.html"
    blank.write_text("<!DOCTYPE html><title>blank</title>")
    sizes = []
    for opened in (blank, page):
        picture = tmp_path / f"{opened.stem}.png"
        run(browser, opened, "--window-size=1200,1000", f"--screenshot={picture}")
        assert picture.read_bytes().startswith(b"\x89PNG")
        sizes.append(picture.stat().st_size)
    assert sizes[1] > 5 * sizes[0]


@pytest.mark.parametrize("width", [600, 1000, 1400])
def test_nothing_sticks_out(browser: str, page: Path, width: int) -> None:
    """Layout measured in the page; tables may scroll within themselves on a phone, not on a laptop."""
    copy = with_script(page, f"measured-{width}.html", _MEASURE)
    measured = measure(browser, copy, f"--window-size={width},900")
    assert measured["client"] == width
    assert measured["scroll"] == width
    assert measured["out"] == []
    assert all(height > 50 for height in measured["charts"])
    if width >= 1000:
        assert measured["tables"] == []


def test_hostile_names_run_nothing(browser: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    page = _write(tmp_path_factory, hostile_facts())
    free = with_script(page, "free.html", "<script>console.error('end reached')</script>")
    done = run(browser, free, "--dump-dom")
    assert "end reached" in done.stderr  # scripts could run, so that none did is the page's merit
    assert done.stderr.count("CONSOLE") == 1
    assert done.stdout.count("<script") == 1
