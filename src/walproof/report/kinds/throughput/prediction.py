"""The published machine beside ours on its emulated disk: measured, predicted, published."""

from __future__ import annotations

from walproof.analysis.published import predict_published
from walproof.analysis.summary import Analysis
from walproof.facts import Run
from walproof.report.blocks import Block, Column, Table, text_cells
from walproof.report.cells import Cells
from walproof.report.numbers import UNKNOWN, number, ratio
from walproof.report.variants import VARIANT_COLUMNS, variant_cells


def prediction_blocks(run: Run, cells: Cells, analysis: Analysis) -> list[Block]:
    """Only for a run on an emulated disk: otherwise L is another disk's."""
    if run.plan.device is None:
        return []
    blocks: list[Block] = []
    for lock in analysis.locks:
        found = predict_published(run.plan, analysis.absolute, lock)
        if found is None:
            continue
        rows = []
        for found_ratio in found.ratios:
            effect = analysis.effect(found.install, found.workload, found_ratio.variant)
            rows.append(
                (
                    *variant_cells(run.plan.variant(found_ratio.variant)),
                    *text_cells(
                        (
                            ratio(effect.ratio, effect.interval) if effect else ratio(found_ratio.here),
                            ratio(found_ratio.predicted),
                            UNKNOWN if found_ratio.published is None else ratio(found_ratio.published),
                        )
                    ),
                )
            )
        title = cells.group_title(found.install, found.workload)
        blocks.append(
            Table(
                f"The published machine, from this one: {title}",
                (
                    *VARIANT_COLUMNS,
                    Column("measured here", numeric=True),
                    Column("predicted there", numeric=True),
                    Column("published", numeric=True),
                ),
                tuple(rows),
                f"On the emulated disk, tps = 1 / (L + c) with L = {number(1000 * found.flush_s)} ms and "
                f"c = {number(1000 * found.work_s)} ms here. The published {lock.variant} alone gives that "
                f"machine's c = {number(1000 * found.published_work_s)} ms; with it and our L every other "
                f"figure is predicted. Its own figures give L = {number(1000 * found.published_flush_s)} ms.",
            )
        )
    return blocks
