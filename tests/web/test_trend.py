"""A trend marks where the level has changed, of each machine by itself."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from tests.report.facts import durability
from walproof.facts import Environment
from walproof.facts.run import Extent
from walproof.report.blocks import Block, Paragraph, Table
from walproof.report.figures.draw import to_svg
from walproof.report.figures.figure import Figure
from walproof.report.figures.run_trend import TrendData
from walproof.settings.durability import DurabilityClass
from walproof.web.listed import ListedRun
from walproof.web.several import trends
from walproof.web.summary import Mark, RunSummary
from walproof.web.trend import Latest

DAY = 86400.0
BEGAN = 1_780_000_000.0


def run(number: int, machine: str, ratio: float) -> ListedRun:
    made = replace(
        durability().run, id=f"r{machine}{number}", created_at=BEGAN + DAY * number,
        environment=Environment({"cpu": machine}, {}),
    )  # fmt: skip
    ends = (ratio * 0.98, ratio * 1.02)
    mark = Mark("18", "w", "x <b>", "default", ratio, *ends, f"{ratio:.2f}x", DurabilityClass.NONE)
    return ListedRun(made, Extent(10, 0, 5, None, 1.0), RunSummary("throughput", (), (), "", (mark,)))


def runs(machine: str, step_at: int | None, seed: int) -> list[ListedRun]:
    chance = np.random.default_rng(seed)
    logs = chance.normal(0.4, 0.01, 24)
    if step_at is not None:
        logs[step_at:] -= 0.08
    return [run(number, machine, math.exp(log)) for number, log in enumerate(logs)]


def drawn(blocks: list[Block]) -> TrendData:
    (figure,) = [block for block in blocks if isinstance(block, Figure)]
    assert isinstance(figure.data, TrendData)
    assert 'class="chart"' in to_svg(figure)
    return figure.data


def test_a_change_has_date_size_and_interval_and_its_machine() -> None:
    blocks = trends([*runs("slow box", 15, 1), *runs("other", None, 2)])
    data = drawn(blocks)
    (change,) = data.changes
    assert change.after == BEGAN + 14 * DAY
    assert change.before == BEGAN + 15 * DAY
    assert change.text.startswith(("-7.", "-8."))
    assert " % (-" in change.text
    assert "Changed by -" in data.describe()
    (table,) = [block for block in blocks if isinstance(block, Table)]
    (row,) = table.rows
    assert [cell.text for cell in row][1] == "slow box"
    assert "a little too large" in (table.note or "")


def test_a_level_that_stays_is_said_and_few_runs_too() -> None:
    for found in (runs("box", None, 3), runs("box", 4, 4)[:8]):
        blocks = trends(found)
        assert drawn(blocks).changes == ()
        (said,) = [block for block in blocks if isinstance(block, Paragraph)]
        assert said.text.startswith("No change of the level was found.")


def test_another_machine_is_no_change() -> None:
    slow = runs("slow", None, 5)
    chance = np.random.default_rng(6)
    shifted = [run(40 + number, "fast", math.exp(chance.normal(0.7, 0.01))) for number in range(24)]
    assert drawn(trends([*slow, *shifted])).changes == ()


def nights(odd: float, step_at: int | None = None) -> list[ListedRun]:
    """Runs of one machine that measure three versions each; in the last one the machine was busy."""
    found = []
    for number in range(12 if step_at is None else 24):
        marks = []
        for version in ("16", "17", "18"):
            log = 0.4 + (0.01 if number % 2 else -0.01)
            log += odd if number == 11 else 0.0
            log -= 0.08 if step_at is not None and version == "18" and number >= step_at else 0.0
            made = run(number, "box", math.exp(log))
            assert made.summary is not None
            marks.append(replace(made.summary.marks[0], install=version))
        assert made.summary is not None
        found.append(replace(made, summary=replace(made.summary, marks=tuple(marks))))
    return found


def test_one_odd_night_is_no_change_however_many_versions_it_measured() -> None:
    data = drawn(trends(nights(-0.08)))
    assert data.changes == ()
    assert "over 12 runs" in data.describe()


def test_a_change_of_one_version_among_several_is_found_and_named() -> None:
    blocks = trends(nights(0.0, step_at=15))
    (change,) = drawn(blocks).changes
    assert change.before == BEGAN + 15 * DAY
    (table,) = [block for block in blocks if isinstance(block, Table)]
    (row,) = table.rows
    assert [cell.text for cell in row][1] == "PostgreSQL 18, box"


def test_pages_of_two_studies_both_get_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each asks again every second; neither begins anew what the other has begun."""
    monkeypatch.setattr("walproof.web.trend.PATIENCE_S", 0.01)
    latest: Latest[str] = Latest()
    made: list[str] = []
    may_end = threading.Event()

    def ask(name: str) -> str | None:
        def make() -> str:
            made.append(name)
            assert may_end.wait(60)
            return f"of {name}"

        return latest.get(name, 1, make)

    for name in ("a", "b", "a", "b"):
        assert ask(name) is None
    may_end.set()
    until_s = time.monotonic() + 60
    while [ask("a"), ask("b")] != ["of a", "of b"]:
        assert time.monotonic() < until_s
    assert made == ["a", "b"]
    monkeypatch.setattr("walproof.web.trend.PATIENCE_S", 60.0)
    assert latest.get("a", 2, lambda: "newer") == "newer"
    assert ask("b") == "of b"
