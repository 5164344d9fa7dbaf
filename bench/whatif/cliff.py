"""The cliff, predicted and measured: one load under many sizes of max_wal_size, and a picture of it.

    PYTHONPATH=. python bench/whatif/cliff.py --measure FILE      adds to FILE, JSON lines
    PYTHONPATH=. python bench/whatif/cliff.py --draw FILE SVG

The load is pgbench on tables of 120 MB, twice under each size. The curve is what the first run without any
checkpoint predicts.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from bench.rows import read_rows
from bench.whatif import workloads as w
from bench.whatif.validate import Campaign, measure
from walproof.report.figures.style import INK, WIDTH, chart_of, configured
from walproof.report.figures.wal_curve import size_label

SIZES_MB = (64, 96, 128, 160, 192, 256, 320, 384, 512, 102400)
SMALL = replace(w.TPCB, name="tpcb, small tables", scale=8)
CAMPAIGN = Campaign("16", SMALL, settings=tuple({"max_wal_size": f"{size}MB"} for size in SIZES_MB) * 2)


def main() -> None:
    """Measure, or draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--draw", type=Path, nargs=2)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/walproof-whatif"))
    arguments = parser.parse_args()
    if arguments.measure:
        measure(CAMPAIGN, arguments.work, arguments.measure)
    if arguments.draw:
        results, picture = arguments.draw
        rows = read_rows(results)
        picture.write_text(vl_convert.vegalite_to_svg(draw(rows)))


def draw(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Vega-Lite specification: a line that is predicted, and every run as a point."""
    sizes = [size_of(row) for row in rows]
    source = rows[sizes.index(SIZES_MB[-1])]
    predicted = {size_of(row): row["wal_bytes"] / 1e6 for row in source["predicted"]}
    order = [label(size) for size in SIZES_MB]
    x = alt.X("size:O", sort=order, title="max_wal_size", axis=alt.Axis(labelAngle=0))
    y = alt.Y("wal:Q", title="WAL of the same transactions (MB)", scale=alt.Scale(domainMin=0))
    names = ["predicted from the run without checkpoints", "measured"]
    colour = alt.Color(
        "kind:N", scale=alt.Scale(domain=names, range=[INK, "#D55E00"]),
        legend=alt.Legend(title=None, orient="top"),
    )  # fmt: skip
    line = [{"size": label(size), "wal": wal, "kind": names[0]} for size, wal in predicted.items()]
    points = [
        {"size": label(size), "wal": row["wal_bytes"] / 1e6, "kind": names[1]}
        for size, row in zip(sizes, rows, strict=True)
    ]
    return configured(
        alt.layer(
            chart_of(line).mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour),
            chart_of(points).mark_point(filled=True, size=70, opacity=0.8).encode(x=x, y=y, color=colour),
        ).properties(
            width=WIDTH - 120, height=260, title="How much WAL would be written with another max_wal_size?"
        )
    )


def size_of(row: Mapping[str, Any]) -> int:
    """Megabytes."""
    return int(row["settings"]["max_wal_size"].removesuffix("MB"))


def label(size_mb: int) -> str:
    """``256 MB``; the largest size never triggers a checkpoint."""
    return "no checkpoint" if size_mb == SIZES_MB[-1] else size_label(size_mb)


if __name__ == "__main__":
    main()
