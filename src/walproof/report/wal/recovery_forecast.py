"""Predicted recoveries laid out for reading: times, their parts, and how sure they are."""

from __future__ import annotations

from walproof.analysis.forecast import Forecast
from walproof.analysis.recovery_costs import START_S, TERMS, RecoveryPrediction
from walproof.report.blocks import Block, Column, Paragraph, Section, Table, text_cells
from walproof.report.numbers import UNKNOWN, number, percent
from walproof.report.wal.view import WalView
from walproof.sentences import say_count
from walproof.units import format_bytes, format_duration
from walproof.wal.recovery import PAGE_BYTES

_FIRST_WITH_PREFETCH = 15
"""The first major version that has recovery_prefetch."""


def recovery_view(forecast: Forecast) -> WalView:
    """What the terminal shows."""
    work = forecast.analysis.last
    dateline = " · ".join(
        (
            f"PostgreSQL {forecast.analysis.version}",
            f"redo point {work.start}, end {work.end}",
            say_count(work.records, "record"),
            f"{work.pages:,} pages",
        )
    )
    return WalView(
        question=f"How long would recovery of {format_bytes(work.wal_bytes)} of WAL take?",
        dateline=dateline,
        sections=(
            Section("times", "Recovery", (_times(forecast), *_advice(forecast))),
            Section("parts", "What redo is made of", (_parts(forecast),)),
            Section("sure", "How sure this is", tuple(_sure(forecast))),
        ),
    )


def _size(prediction: RecoveryPrediction) -> str:
    """The size as SHOW shared_buffers prints it."""
    kilobytes = prediction.buffers * PAGE_BYTES >> 10
    for factor, unit in ((1 << 20, "GB"), (1 << 10, "MB")):
        if kilobytes % factor == 0:
            return f"{kilobytes // factor}{unit}"
    return f"{kilobytes}kB"


def _times(forecast: Forecast) -> Table:
    rows = []
    has_prefetch = forecast.analysis.version >= _FIRST_WITH_PREFETCH
    for prediction in forecast.predictions:
        low, high = prediction.band(prediction.total_s)
        cold_low, cold_high = prediction.band(prediction.cold_total_s(), is_cold=True)
        rows.append(
            text_cells(
                (
                    _size(prediction), _seconds(prediction.warm_s), _seconds(prediction.cold.redo_s),
                    *([_seconds(prediction.cold_off.redo_s)] if has_prefetch else []),
                    _seconds(prediction.checkpoint_s), _seconds(prediction.total_s),
                    f"{_seconds(low)} to {_seconds(high)}", _seconds(prediction.cold_total_s()),
                    f"{_seconds(cold_low)} to {_seconds(cold_high)}",
                )
            )
        )  # fmt: skip
    return Table(
        "Until the server accepts connections",
        (
            Column("shared_buffers"),
            Column("warm redo", numeric=True),
            Column("cold redo", numeric=True),
            *([Column("no prefetch", numeric=True)] if has_prefetch else []),
            Column("checkpoint", numeric=True),
            Column("total", numeric=True),
            Column("9 of 10 in", numeric=True),
            Column("cold total", numeric=True),
            Column("9 of 10 in", numeric=True, terminal=False),
        ),
        tuple(rows),
        "Warm: the kernel still has the data, as after a crash of the server alone. Cold: it has nothing, as "
        "after a reboot, on another host or from a snapshot"
        + ("; with recovery_prefetch=try, or off" if has_prefetch else "")
        + ". The cold total has the checkpoint of a cold cache, which takes longer than the one shown. Both "
        f"totals have {format_duration(START_S)} more for the start of the server.",
    )


def _advice(forecast: Forecast) -> list[Block]:
    blocks: list[Block] = []
    for prediction in forecast.predictions:
        share = prediction.part_s(prediction.dominating) / prediction.warm_s if prediction.warm_s > 0 else 0.0
        text = (
            f"With shared_buffers = {_size(prediction)} the largest part of warm redo, {percent(share)}, is "
            f"{prediction.dominating.says}."
        )
        wasted = prediction.cold.pages - prediction.cold_off.pages
        if (
            prediction.cold.requests > prediction.cold_off.requests
            and prediction.cold.redo_s > 1.1 * prediction.cold_off.redo_s
        ):
            text += (
                " On a cold cache recovery_prefetch=off is faster here: the disk is asked for "
                f"pages {prediction.cold_off.requests:,} times, not {prediction.cold.requests:,}. "
                "The prefetcher asks for "
                f"pages one by one where the kernel reads some together, and for {wasted:,} in vain."
            )
        elif prediction.cold_off.redo_s > 1.1 * prediction.cold.redo_s:
            text += " On a cold cache recovery_prefetch=try is faster here."
        if (
            prediction.host_s is not None
            and prediction.cold_host_s is not None
            and prediction.host_s > 0.05 * prediction.warm_s
        ):
            text += (
                " If the host of this virtual machine has taken back unused memory, "
                f"{_seconds(prediction.host_s)} are added, with a cold cache "
                f"{_seconds(prediction.cold_host_s)}: "
                f"{number(prediction.coefficients.host_us or 0.0)} us for each 8 kB that is used first."
            )
        blocks.append(Paragraph(text, terminal=True))
    return blocks


def _parts(forecast: Forecast) -> Table:
    columns = [Column("part"), Column("each, us", numeric=True)]
    for prediction in forecast.predictions:
        columns += [Column(f"{_size(prediction)}: count", numeric=True), Column("s", numeric=True)]
    rows = []
    for term in TERMS:
        cells = [term.says, number(forecast.coefficients.cpu_us[term.name])]
        for prediction in forecast.predictions:
            quantities = prediction.work.quantities(prediction.buffers)
            units = sum(quantities[name] * factor for name, factor in term.quantities)
            cells += [f"{units:,.0f}", _seconds(prediction.terms_s[term.name])]
        if any(prediction.terms_s[term.name] > 0 for prediction in forecast.predictions):
            rows.append(text_cells(cells))
    return Table("CPU of redo with a warm cache", tuple(columns), tuple(rows))


def _sure(forecast: Forecast) -> list[Block]:
    blocks: list[Block] = [Paragraph(note, terminal=True) for note in forecast.notes]
    disk = forecast.disk
    if disk.iops is None and disk.read_latency_us is None:
        blocks.append(
            Paragraph(
                "The disk is assumed to set no limit: --iops and --read-latency say what it can do.",
                terminal=True,
            )
        )
    else:
        parts = []
        if disk.iops is not None:
            parts.append(f"{disk.iops:,.0f} reads of 8 kB a second")
        if disk.read_latency_us is not None:
            parts.append(f"{number(disk.read_latency_us)} us for one alone")
        parts.append(f"up to {disk.read_ahead_kb:,} kB read ahead by the kernel")
        blocks.append(Paragraph(f"Of the disk: {', '.join(parts)}.", terminal=True))
    if forecast.analysis.gaps:
        blocks.append(Paragraph("WAL is missing, so the work is more than was counted.", terminal=True))
    return blocks


def _seconds(seconds: float) -> str:
    return format_duration(seconds) if seconds else UNKNOWN
