"""Where the startup process spends its CPU: a flame graph per profile, the outermost function lowest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from walproof.facts import Cell
from walproof.facts.profile import KERNEL_MARK, stacks_of
from walproof.report.cells import Cells
from walproof.report.figures.channels import kind_colour
from walproof.report.figures.style import INK, WIDTH, chart_of, configured
from walproof.report.numbers import percent

_SERVER, _KERNEL = "PostgreSQL and C library", "kernel"
_COLOURS = {_SERVER: "#E69F00", _KERNEL: "#56B4E9"}
_LEAST_SHARE = 0.004
_DEPTH_MOST = 26
_ROW = 15
_LETTER = 5.6
"""Approximate width of a letter in a frame, in pixels."""


@dataclass(frozen=True, slots=True)
class FlameFrame:
    """A function, called by the one below it."""

    name: str
    is_kernel: bool
    depth: int
    start: float
    """Share of the samples to the left of it."""
    share: float
    """Share of all samples, including what it calls."""


@dataclass(frozen=True, slots=True)
class FlamePanel:
    """One profile."""

    title: str
    method: str
    """``perf`` or ``kernel``."""
    samples: int
    frames: tuple[FlameFrame, ...]


@dataclass(frozen=True, slots=True)
class FlameData:
    """Panels of equal width."""

    panels: tuple[FlamePanel, ...]

    def describe(self) -> str:
        """Samples of each panel, and its widest functions."""
        parts = []
        for panel in self.panels:
            widest: dict[str, float] = {}
            for frame in panel.frames:
                widest[frame.name] = widest.get(frame.name, 0.0) + frame.share
            named = sorted(widest, key=lambda name: -widest[name])[:6]
            shares = ", ".join(f"{name} {percent(min(1.0, widest[name]))}" for name in named)
            parts.append(f"{panel.title}: {panel.samples} samples; {shares}")
        return "Functions of the startup process by their share of its CPU time. " + ". ".join(parts) + "."

    def draw(self) -> dict[str, Any]:
        """Vega-Lite specification of the chart."""
        import altair as alt

        width = WIDTH - 20
        charts = []
        for panel in self.panels:
            values = [
                {
                    "x": frame.start,
                    "x2": frame.start + frame.share,
                    "y": frame.depth,
                    "y2": frame.depth + 1,
                    "kind": _KERNEL if frame.is_kernel else _SERVER,
                    "label": _label(frame.name, frame.share * width),
                    "about": f"{frame.name}: {percent(frame.share)}",
                }
                for frame in panel.frames
            ]
            depth = 1 + max(frame.depth for frame in panel.frames)
            x = alt.X("x:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=alt.Axis(
                format="%", grid=False, tickCount=5, title="share of the samples"))  # fmt: skip
            y = alt.Y("y:Q", scale=alt.Scale(domain=[0, depth], nice=False), axis=None)
            base = chart_of(values)
            boxes = base.mark_rect(stroke="#ffffff", strokeWidth=0.6).encode(
                x=x,
                x2="x2:Q",
                y=y,
                y2="y2:Q",
                color=kind_colour("kind", _COLOURS),
                description=alt.Description("about:N"),
            )
            # Labels begin at the left edge of their box, and stand in its middle.
            texts = base.mark_text(align="left", dx=3, dy=-_ROW / 2 + 1, fontSize=10, color="#000000").encode(
                x=x, y=y, text="label:N"
            )
            how = "perf" if panel.method == "perf" else "kernel stacks, sampled from outside"
            title = alt.TitleParams(panel.title, subtitle=f"{panel.samples} samples by {how}")
            charts.append(alt.layer(boxes, texts).properties(width=width, height=depth * _ROW, title=title))
        spec = configured(alt.vconcat(*charts, spacing=18))
        spec["config"]["axis"]["labelColor"] = INK
        return spec


def flames(cells: Cells) -> FlameData | None:
    """A panel for each cell that has a profile; None when none has."""
    panels = []
    for install, workload in cells.groups():
        for variant in cells.variants():
            for trial in cells.finished(Cell(install, workload, variant.name)):
                found = stacks_of(trial.metrics)
                if found is not None:
                    method, stacks = found
                    title = f"PostgreSQL {install}, {variant.name}"
                    panels.append(FlamePanel(title, method, sum(stacks.values()), _frames(stacks)))
    return FlameData(tuple(panels)) if panels else None


def _frames(stacks: Mapping[tuple[str, ...], int]) -> tuple[FlameFrame, ...]:
    total = sum(stacks.values())
    found: list[FlameFrame] = []

    def lay(prefix: tuple[str, ...], counts: Mapping[tuple[str, ...], int], start: float) -> None:
        depth = len(prefix)
        below: dict[str, dict[tuple[str, ...], int]] = {}
        for stack, count in counts.items():
            if len(stack) > depth:
                below.setdefault(stack[depth], {})[stack] = count
        # By name, so that two profiles can be laid beside each other.
        for name in sorted(below):
            share = sum(below[name].values()) / total
            if share >= _LEAST_SHARE and depth < _DEPTH_MOST:
                is_kernel = name.endswith(KERNEL_MARK)
                found.append(FlameFrame(name.removesuffix(KERNEL_MARK), is_kernel, depth, start, share))
                lay((*prefix, name), below[name], start)
            start += share

    lay((), stacks, 0.0)
    return tuple(found)


def _label(name: str, pixels: float) -> str:
    room = int((pixels - 6) / _LETTER)
    if room >= len(name):
        return name
    return f"{name[: room - 1]}…" if room >= 4 else ""
