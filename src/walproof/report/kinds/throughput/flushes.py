"""pg_test_fsync beside what commits did: does it predict them?"""

from __future__ import annotations

from walproof.facts import Cell, Plan, Run, Variant
from walproof.report.blocks import Block, Column, Paragraph, Table, text_cells
from walproof.report.cells import Cells
from walproof.report.numbers import UNKNOWN, number
from walproof.report.published import say_source

_SETTING = "wal_sync_method"
_ON_LINUX = "fdatasync"
_DIRECT = ("open_datasync", "open_sync")
"""Methods that pg_test_fsync measures with direct I/O. Linux has both, so one without a rate is on a file
system that has no direct I/O."""
_DIRECT_NOTE = (
    " open_datasync and open_sync were measured with direct I/O. A server uses these methods without it, and "
    "may be slower or faster with them, unless it has wal_level = minimal (13 to 15) or debug_io_direct = "
    "wal (16 and newer): so tps per flush compares two ways of writing there."
)


def flush_blocks(run: Run, cells: Cells) -> list[Block]:
    """One row per method: flushes per second of pg_test_fsync, transactions per second of each workload, and
    their ratio; empty if the run measured no flush rates."""
    rates = run.environment.flush_rates
    if not rates:
        return []
    plan = run.plan
    by_method = _variants_by_method(plan)
    published = {
        method: reference.metrics["flushes_per_s"]
        for method, variant in by_method.items()
        for reference in plan.references
        if reference.variant == variant.name and "flushes_per_s" in reference.metrics
    }
    groups = cells.groups()
    rows = []
    for method, rate in rates.items():
        variant = by_method.get(method)
        texts = [
            method,
            _absent(method) if rate is None else number(rate),
            UNKNOWN if not rate else number(1e6 / rate),
            number(published.get(method)),
        ]
        for install, workload in groups:
            tps = cells.median(Cell(install, workload, variant.name), "tps") if variant else None
            texts.append(number(tps))
            texts.append(UNKNOWN if tps is None or not rate else number(tps / rate))
        rows.append(text_cells(texts))
    columns = [
        Column("method"),
        Column("flushes/s", numeric=True),
        Column("us per flush", numeric=True),
        Column("flushes/s published", numeric=True),
    ]
    for install, workload in groups:
        title = cells.group_title(install, workload)
        columns += [
            Column(f"tps, {title}", numeric=True),
            Column(f"tps per flush, {title}", numeric=True),
        ]
    if not published:
        del columns[3]
        rows = [row[:3] + row[4:] for row in rows]
    note = (
        "Flushes of one 8 kB write, by pg_test_fsync in the folder that was measured, before the first trial."
    )
    if any(method in _DIRECT for method in rates):
        note += _DIRECT_NOTE
    own = _others(plan, plan.variant(plan.baseline))
    if any(_others(plan, variant) != own for variant in plan.variants):
        note += f" Variants that differ from {plan.baseline} in more than {_SETTING} are left out."
    if plan.device is not None:
        note += " They are the real disk's; throughput is on the emulated one."
    return [
        Table(
            "Does pg_test_fsync predict the throughput?", tuple(columns), tuple(rows), say_source(plan, note)
        ),
        Paragraph(
            "One client commits at most once per flush: the work of a transaction keeps tps per flush below "
            "1. "
            "Many clients share flushes (group commit), so it can be above 1. With open_datasync and "
            "open_sync each write is durable when it returns; the server counts no separate flush, so its "
            "flush times are missing there."
        ),
    ]


def _variants_by_method(plan: Plan) -> dict[str, Variant]:
    """The baseline, and the variants that differ from it in the method alone: what another setting does to
    the throughput says nothing about a flush."""
    baseline = plan.variant(plan.baseline)
    found: dict[str, Variant] = {}
    for variant in (baseline, *plan.variants):
        if _others(plan, variant) == _others(plan, baseline):
            found.setdefault(plan.settings_of(variant).get(_SETTING, _ON_LINUX), variant)
    return found


def _others(plan: Plan, variant: Variant) -> dict[str, str]:
    """Its settings but for the method."""
    return {name: value for name, value in plan.settings_of(variant).items() if name != _SETTING}


def _absent(method: str) -> str:
    return "not measured: no direct I/O" if method in _DIRECT else "not on this platform"
