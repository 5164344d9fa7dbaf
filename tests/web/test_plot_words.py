"""What a plot says to a reader who cannot see it."""

from __future__ import annotations

from walproof.web.live.plot import Plot, PlotLine


def test_one_gap_and_one_mark_are_said_as_one() -> None:
    line = PlotLine("x", 1, (1.0, 2.0, 3.0))

    def said(*places: int) -> str:
        seen = Plot(
            "x", "x", "", 0.0, 2.0, (0.0, 1.0, 2.0), frozenset(places), (line,), lambda value: f"{value:g}",
            marks=tuple((float(place), "a checkpoint") for place in places),
        )  # fmt: skip
        return seen.describe()

    assert said(1).endswith("; 1 gap; 1 mark.")
    assert said(1, 2).endswith("; 2 gaps; 2 marks.")
