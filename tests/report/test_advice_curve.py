"""The curve of WAL by max_wal_size in advice: where the server is, and where it should be."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.advise.server.stored import PROVOKED, cases
from tests.advise.server.windows import healthy, with_settings
from tests.analysis.test_whatif import make
from tests.schemas import assert_valid
from walproof.advise.server.case import ServerCase
from walproof.advise.server.rules import advise
from walproof.analysis.server_limits import ServerLimits
from walproof.analysis.whatif import Question, study
from walproof.platforms.registry import platform
from walproof.report.advice.json import to_json
from walproof.report.advice.page import to_html, to_markdown
from walproof.report.advice.view import advice_view
from walproof.report.figures.style import series_style
from walproof.report.figures.wal_curve import Curve, CurvePoint, WalCurveData, size_label
from walproof.units import format_bytes
from walproof.wal.whatif import Cycles, Target


def test_the_curve_marks_where_the_server_is_and_where_it_should_be() -> None:
    case = cases(PROVOKED)["max_wal_size/provoked"]
    view = advice_view(advise(case), platform("conf"))
    assert_valid("advise", json.loads(to_json(view)))
    curve = json.loads(to_json(view))["curve"]
    assert curve["unit"] == "bytes/h"
    assert curve["present_mb"] == 32
    assert curve["advised_mb"] > 32
    by_size = {point["max_wal_size_mb"]: point for point in curve["points"]}
    assert by_size[curve["advised_mb"]]["high"] < by_size[32]["low"]
    assert all(point["low"] <= point["wal"] <= point["high"] for point in curve["points"])
    markdown = to_markdown(view)
    assert "| 32 MB | now |" in markdown
    assert "| advised |" in markdown
    page = to_html(view)
    assert "Advised: " in page
    assert "<svg" in page


def test_an_advised_timeout_has_a_row_of_its_own() -> None:
    question = Question(Target(max_wal_size_mb=64, checkpoint_timeout_s=30), is_present_known=True)
    made = make(question)
    outcomes = tuple(
        replace(run, wal_bytes=run.wal_bytes // 8, cycles=Cycles(0, 0, 0, 0, None, 0))
        if target.checkpoint_timeout_s == 300
        else run
        for target, run in zip(made.found.targets, made.found.outcomes, strict=True)
    )
    told = study(replace(made.found, outcomes=outcomes), question)
    window = with_settings(healthy(), max_wal_size="64MB", checkpoint_timeout="30s")
    view = advice_view(advise(ServerCase(window, whatif=told)), platform("conf"))
    curve = json.loads(to_json(view))["curve"]
    assert_valid("advise", json.loads(to_json(view)))
    assert curve["checkpoint_timeout_s"] == 30
    assert curve["advised"]["checkpoint_timeout_s"] == 300
    assert curve["advised"]["max_wal_size_mb"] == curve["advised_mb"]
    (item,) = (item.advice for item in view.items if item.advice.rule == "max_wal_size")
    wal = f"{format_bytes(item.figures[0].then)}/h"
    (row,) = (line for line in to_markdown(view).splitlines() if "| advised |" in line)
    assert row.startswith(f"| {size_label(curve['advised_mb'])}, 5 min 00 s | advised | {wal} |")
    assert "where a row names no other" in to_markdown(view)
    assert "on the line of checkpoint_timeout = 5 min 00 s" in to_html(view)


def test_the_row_of_what_is_advised_is_that_of_the_advice_beside_slots() -> None:
    """The row left out that slots keep WAL in the same room, and had another size."""
    question = Question(Target(max_wal_size_mb=32, checkpoint_timeout_s=30), is_present_known=True)
    made = make(question)
    outcomes = tuple(
        replace(run, wal_bytes=run.wal_bytes // 8, cycles=Cycles(0, 0, 0, 0, None, 0), pg_wal_most=0)
        if target.checkpoint_timeout_s == 300
        else run
        for target, run in zip(made.found.targets, made.found.outcomes, strict=True)
    )
    told = study(replace(made.found, outcomes=outcomes), question)
    window = with_settings(
        healthy(), max_wal_size="32MB", checkpoint_timeout="30s", max_slot_wal_keep_size="-1"
    )
    limits = ServerLimits(wal_disk_bytes=600 << 20)
    curve = json.loads(
        to_json(advice_view(advise(ServerCase(window, whatif=told, limits=limits)), platform("conf")))
    )["curve"]
    assert curve["advised"]["max_wal_size_mb"] == curve["advised_mb"]


def test_the_curve_has_time_away_where_recoveries_were_forecast() -> None:
    case = cases(PROVOKED)["max_wal_size/provoked"]
    assert case.whatif is not None
    timed = study(case.whatif.found, case.whatif.question, lambda prediction: prediction.distance_most / 1e8)
    view = advice_view(advise(replace(case, whatif=timed)), platform("conf"))
    points = json.loads(to_json(view))["curve"]["points"]
    assert all(point["recovery_s"] == point["recovery_bytes_most"] / 1e8 for point in points)
    assert "time away" in to_markdown(view)
    assert "time away (s)" in to_html(view)


def test_without_recorded_wal_there_is_no_curve() -> None:
    view = advice_view(advise(ServerCase(healthy())), platform("conf"))
    assert json.loads(to_json(view))["curve"] is None
    assert 'id="curve"' not in to_html(view)


def test_the_time_away_is_drawn_of_every_timeout_in_its_colour() -> None:
    def curve(name: str, *sizes_mb: int) -> Curve:
        return Curve(name, tuple(CurvePoint(size, 1e9, 9e8, 2e9, 1e8, 1e8, size / 64) for size in sizes_mb))

    data = WalCurveData("/h", (curve("30 s", 64, 128), curve("5 min", 64, 128, 256)), 1e9, 64, (), 256)
    below = data.draw()["vconcat"][1]
    lines = [layer for layer in below["layer"] if layer["mark"]["type"] == "line"]
    assert [line["mark"]["color"] for line in lines] == series_style(2)[0]
    assert lines[0]["encoding"]["x"]["scale"]["domain"] == ["64 MB", "128 MB", "256 MB"]
