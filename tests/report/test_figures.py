"""Figures by their data; drawing is checked for being well-formed and for holding every mark."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from tests.report.facts import (
    Facts,
    durability,
    factorial_facts,
    hostile_facts,
    make_facts,
    two_installs_facts,
)
from walproof.facts import TrialState
from walproof.report.figures.draw import to_svg
from walproof.report.figures.figure import Figure
from walproof.report.figures.fit import fit_texts
from walproof.report.figures.names import factors_of, levels_of
from walproof.report.figures.ratios import RatioData, RatioPanel, RatioRow
from walproof.report.figures.run_trend import TrendData, TrendPoint
from walproof.report.figures.scale import log_range, log_ticks, tick_label
from walproof.report.figures.style import FAINT, GRID, INK, REST, label_on, series_style
from walproof.report.figures.wal_rate import WalMinute, WalRateData
from walproof.report.kinds.power_cuts import outcomes
from walproof.report.kinds.throughput import waits
from walproof.report.kinds.throughput.course import CourseData
from walproof.report.kinds.throughput.latency import LatencyData
from walproof.report.kinds.throughput.measured import MeasuredData, MeasuredPanel, MeasuredRow
from walproof.report.kinds.throughput.seconds import SecondsData
from walproof.report.kinds.throughput.waits import WaitData
from walproof.report.view import build_view
from walproof.settings.durability import DurabilityClass

STYLE_SHEET = Path(outcomes.__file__).parents[2] / "templates" / "report.css"
BARS = pytest.mark.parametrize(
    "colour", [*outcomes._COLOURS.values(), *waits._COLOURS, waits._CPU_COLOUR, REST]
)  # fmt: skip


def figures(facts: Facts) -> dict[str, Figure]:
    view = build_view(facts.run, facts.trials, facts.series)
    found = [*view.overview, *(b for s in view.sections for b in s.blocks if isinstance(b, Figure))]
    return {figure.id: figure for figure in found}


def test_ratio_rows_are_ordered_by_class_and_hold_every_round() -> None:
    data = figures(durability())["ratios"].data
    assert isinstance(data, RatioData)
    assert [panel.title for panel in data.panels] == ["scale 1", "scale 50"]
    for panel in data.panels:
        ranks = [row.durability.rank for row in panel.rows if row.durability is not None]
        assert ranks == sorted(ranks)
        assert len(ranks) == 6  # all but the baseline
        for row in panel.rows:
            assert row.ratio is not None
            assert row.interval is not None
            assert row.interval.low <= row.ratio <= row.interval.high
            logs = [math.log(point.ratio) for point in row.points]
            assert math.isclose(math.exp(sum(logs) / len(logs)), row.ratio)
            assert all(data.low <= point.ratio <= data.high for point in row.points)
    pgtune = next(row for row in data.panels[1].rows if row.label == "pgtune")
    assert [point.round for point in pgtune.points] == [1, 3, 5]  # its trials failed in rounds 2 and 4
    assert data.low < 1 < data.high
    assert list(data.ticks) == sorted(data.ticks)


def test_ratio_axis_is_not_stretched_by_an_interval_of_two_rounds() -> None:
    data = figures(make_facts(2))["ratios"].data
    assert isinstance(data, RatioData)
    points = [point.ratio for panel in data.panels for row in panel.rows for point in row.points]
    assert data.high <= max(points) * 3.5
    assert data.low >= min(points) / 3.5


def test_wait_shares_sum_to_one() -> None:
    data = figures(durability())["waits"].data
    assert isinstance(data, WaitData)
    assert len(data.events) <= 9
    for panel in data.panels:
        assert "wal_level=minimal" not in [bar.variant for bar in panel.bars]  # it has no samples
        for bar in panel.bars:
            assert all(0 <= share <= 1 for share in bar.shares)
            assert math.isclose(sum(bar.shares), 1)


def test_latency_percentiles_rise() -> None:
    data = figures(durability())["latency"].data
    assert isinstance(data, LatencyData)
    for panel in data.panels:
        for row in panel.rows:
            for p50, p95, p99 in zip(*row.values_ms, strict=True):
                assert data.low_ms < p50 <= p95 <= p99 < data.high_ms


def test_seconds_are_ordered_and_within_their_range() -> None:
    data = figures(durability())["seconds"].data
    assert isinstance(data, SecondsData)
    assert "full_page_writes=off" not in [panel.variant for panel in data.panels]  # it has no series
    assert len(data.panels) == 12
    for panel in data.panels:
        assert [second.t_s for second in panel.seconds] == list(range(12))
        assert all(0 <= s.tps_min <= s.tps_median <= s.tps_max for s in panel.seconds)
        dip = min(panel.seconds, key=lambda second: second.tps_median)
        assert dip.t_s == 8


def test_course_holds_every_finished_trial_once_and_in_time() -> None:
    facts = durability()
    data = figures(facts)["course"].data
    assert isinstance(data, CourseData)
    done = [t.number for t in facts.trials if t.state is TrialState.DONE]
    assert sorted(p.trial for panel in data.panels[:-1] for p in panel.points) == done
    assert data.x == "minutes since the first trial"
    # A trial may have several points.
    assert data.describe().startswith("Points against minutes since the first trial. ")
    relative = data.panels[-1]
    assert [p.trial for p in relative.points] == done
    assert [p.x for p in relative.points] == sorted(p.x for p in relative.points)
    assert relative.line is not None


def test_course_of_an_interrupted_run_goes_by_trial_number() -> None:
    from dataclasses import replace

    facts = make_facts(2)
    late = tuple(
        replace(t, started_at=t.started_at + 86_400, ended_at=t.ended_at + 86_400) if t.round == 2 else t
        for t in facts.trials
    )
    data = figures(Facts(facts.run, late, ()))["course"].data
    assert isinstance(data, CourseData)
    assert data.x.startswith("trial, in run order")
    assert max(p.x for panel in data.panels for p in panel.points) == len(late)


def test_factor_rows_are_the_terms() -> None:
    data = figures(factorial_facts())["factors"].data
    assert isinstance(data, RatioData)
    labels = [row.label for row in data.panels[0].rows]
    assert labels == ["fsync=off", "wal_compression=pglz", "fsync=off * wal_compression=pglz"]


@pytest.mark.parametrize("make", [durability, factorial_facts, two_installs_facts, hostile_facts])
def test_every_figure_draws_to_well_formed_svg(make: object) -> None:
    for figure in figures(make()).values():  # type: ignore[operator]
        svg = to_svg(figure)
        root = ET.fromstring(svg)
        assert root.tag == "svg"
        assert root.find("title") is not None
        assert root.findtext("title") == figure.title
        assert "NaN" not in svg
        assert "undefined" not in svg
        assert "http" not in svg.replace("https://evil", "")
        assert not list(root.iter("script"))


def test_ratio_svg_has_a_tooltip_per_round() -> None:
    figure = figures(durability())["ratios"]
    root = ET.fromstring(to_svg(figure))
    tooltips = [element.text or "" for element in root.iter("title")]
    assert isinstance(figure.data, RatioData)
    points = sum(len(row.points) for panel in figure.data.panels for row in panel.rows)
    assert sum(", round " in text for text in tooltips) == points


def test_ids_of_two_figures_in_one_page_differ() -> None:
    ids: list[str] = []
    for figure in figures(durability()).values():
        ids += [
            element.attrib["id"] for element in ET.fromstring(to_svg(figure)).iter() if "id" in element.attrib
        ]
    assert len(ids) == len(set(ids))


def test_alt_text_names_figures_and_class() -> None:
    found = figures(durability())
    assert "fsync=off" in found["ratios"].alt
    assert "durability class may corrupt" in found["ratios"].alt
    for id_ in ("waits", "latency", "seconds"):
        assert "(may corrupt)" in found[id_].alt
    assert all(
        "seed 1" in f.caption and "n = 68 trials (2 failed, left out)" in f.caption for f in found.values()
    )


@pytest.mark.parametrize(
    ("low", "high"), [(0.97, 1.03), (0.9, 1.4), (0.7, 7.0), (0.01, 100.0), (1e-3, 1e6), (400.0, 420.0)]
)
def test_ticks_lie_on_the_axis_and_are_few(low: float, high: float) -> None:
    ticks = log_ticks(low, high)
    assert 2 <= len(ticks) <= 10
    assert all(low <= tick <= high for tick in ticks)
    assert list(ticks) == sorted(set(ticks))
    assert len({tick_label(tick) for tick in ticks}) == len(ticks)


def test_log_range_survives_odd_values() -> None:
    assert log_range([]) == pytest.approx((1 / 1.1, 1.1))
    low, high = log_range([0.0, -1.0, float("nan"), float("inf"), 5.0])
    assert 0 < low < 5 < high < 10


def test_more_variants_than_colours_still_differ() -> None:
    colours, shapes = series_style(20)
    assert len(set(zip(colours, shapes, strict=True))) == 20


def _contrast(colour: str, other: str) -> float:
    """Contrast ratio of two colours (Web Content Accessibility Guidelines 2.2)."""

    def luminance(text: str) -> float:
        parts = [int(text[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    light, dark = sorted((luminance(colour), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@BARS
def test_numbers_in_bars_can_be_read(colour: str) -> None:
    """On a dark screen the bar of images that do not start was light, with a white number."""
    assert _contrast(label_on(colour), colour) >= 4.5
    assert colour.lower() not in {INK, FAINT, GRID}, "the style sheet changes it on a dark screen"


@BARS
def test_bars_can_be_seen_on_a_dark_screen(colour: str) -> None:
    """Of the bar of images that do not start only a line of one pixel around it was seen."""
    paper = re.findall(r"--paper: (#\w{6});", STYLE_SHEET.read_text(encoding="utf-8"))
    assert len(paper) == 2
    assert _contrast(colour, paper[-1]) >= 3


def test_bars_of_wal_have_the_minutes_that_they_are_divided_by() -> None:
    """An even load of 361 minutes had a last bar of half the height, which stood beyond the axis."""
    for count, of_a_bar in ((360, 1), (361, 2), (721, 3)):
        data = WalRateData(tuple(WalMinute(60.0 * at, 100 << 20, 0) for at in range(count)), (30.0,))
        assert data.bar_min == of_a_bar
        bars = data.draw()["layer"][0]["data"]["values"]
        assert {bar["y2"] for bar in bars} == {100.0}
        assert max(bar["x2"] for bar in bars) == count
        assert data.describe().endswith("100 MB to 100 MB a minute; 1 checkpoint.")


@pytest.mark.parametrize(
    ("apart_s", "label"),
    [(7200, r"11-20 \d\d:\d\d"), (86_400, r"11-2\d \d\d:\d\d"), (40 * 86_400, r"\d{4}-\d\d-\d\d")],
)
def test_ticks_of_a_trend_differ(apart_s: float, label: str) -> None:
    """Runs of one day had its date under each tick."""
    first = 1_795_165_200.0
    points = tuple(
        TrendPoint(first + apart_s * n, f"r{n}", "18, box", 1.5, 1.4, 1.6, "1.50x") for n in range(5)
    )
    svg = to_svg(Figure("trend", "", "", "", "", TrendData("throughput (x)", points)))
    shown = re.findall(rf">({label})</text>", svg)
    assert len(shown) == len(set(shown)) >= 3


def test_factors_are_found_where_every_name_has_them() -> None:
    assert factors_of(["wal_level=minimal, fsync=on", "◆ wal_level=logical, fsync=off"]) == (
        "wal_level",
        "fsync",
    )
    assert levels_of("◆ wal_level=logical, fsync=off") == "◆ logical, off"
    for others in (
        ["rare checkpoints", "rare, fsync=off"],
        ["fsync=on", "fsync=off"],
        ["a=1, b=2", "b=1, a=2"],
        [],
    ):
        assert factors_of(others) == ()


def test_cells_of_factors_are_named_by_their_levels() -> None:
    ratios = figures(factorial_facts())["ratios"].data
    assert isinstance(ratios, RatioData)
    assert all("=" not in row.label for panel in ratios.panels for row in panel.rows)
    assert all(": " in panel.title for panel in ratios.panels)
    names = [f"max_wal_size={size}, checkpoint_timeout={time}" for size in ("1GB", "128MB") for time in "ab"]
    rows = tuple(MeasuredRow(name, DurabilityClass.NONE, ((1.0,),)) for name in names)
    axis = _names_axis(MeasuredData("away", "s", ("warm cache",), (MeasuredPanel("p", rows),)))
    assert '"\\u25cf max_wal_size=1GB, checkpoint_timeout=a": "\\u25cf 1GB, a"' in axis["labelExpr"]
    assert axis["title"] == ["max_wal_size,", "checkpoint_timeout"]
    measured = (MeasuredRow("frequent, fsync=off", DurabilityClass.NONE, ((1.0,),)),)
    plain = _names_axis(MeasuredData("away", "s", ("warm cache",), (MeasuredPanel("p", (*rows, *measured)),)))
    assert "labelExpr" not in plain
    assert plain["title"] is None


def test_texts_say_the_widths_that_they_were_laid_out_with() -> None:
    """Widths of ``bound`` in Liberation Sans: 5695/2048 em, in bold 6255; others are measured as well."""
    head = '<text font-size="12px"'
    drawn = (
        f"{head}>bound</text>",
        f'{head} font-weight="bold">bound</text>',
        f"{head}> </text>",
        f'{head}><tspan>bound</tspan><tspan dy="14">a &lt;  b</tspan></text>',
        f'{head} aria-label="a>b">数据</text>',
        f"{head}>◆ bound</text>",
        f"{head}>◆</text>",
    )
    svg = f"<svg>{''.join(drawn)}</svg>"
    plain, bold, empty, lines, wide, marked, mark = ET.fromstring(fit_texts(svg))
    assert float(plain.attrib["textLength"]) == pytest.approx(12 * 5695 / 2048, abs=0.05)
    assert float(bold.attrib["textLength"]) == pytest.approx(12 * 6255 / 2048, abs=0.05)
    assert "textLength" not in empty.attrib
    assert "textLength" not in lines.attrib
    assert [line.text for line in lines] == ["bound", "a <  b"]
    assert lines[0].attrib["textLength"] == plain.attrib["textLength"]
    assert float(wide.attrib["textLength"]) > 0
    # The letters are as wide with a mark of another font before them; a space has 569/2048 em.
    parts = (mark.attrib["textLength"], plain.attrib["textLength"])
    assert float(marked.attrib["textLength"]) == pytest.approx(sum(map(float, parts)) + 3.33, abs=0.15)
    assert wide.attrib["aria-label"] == "a>b"


def test_figures_of_the_ratio_chart_are_never_cut() -> None:
    text = "0.0123x (0.0110 to 0.0145), n = 100, and more"
    row = RatioRow("a" * 60, DurabilityClass.NONE, 0.9, None, (), text)
    data = RatioData("x", (RatioPanel("p", (row,)),), 0.5, 2.0, (1.0,))
    svg = to_svg(Figure("ratios", "", "", "", "", data))
    assert f">{text}</text>" in svg
    assert "aaa…</text>" in svg


def _names_axis(data: MeasuredData) -> dict[str, Any]:
    axis: dict[str, Any] = data.draw()["vconcat"][0]["layer"][0]["encoding"]["y"]["axis"]
    return axis
