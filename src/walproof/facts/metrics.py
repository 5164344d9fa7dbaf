"""Every metric and series that facts hold: what its name means, its unit, its source, how it is shown.

The table, ``metrics.csv``, is read when it is first asked for. What is not in it is written by no probe and
asked for by no report: tests hold this. ``docs/metrics.md`` is made from it by bench/metrics_page.py.

A row's name is a name, a family or both::

    wal_bytes                   one name
    cpu_s.<process>             a family: the dot and anything after it (``cpu_s.checkpointer``)
    lag_bytes_max[.<stage>]     both: the total, and the same of each stage
"""

from __future__ import annotations

import csv
import difflib
import re
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from walproof.errors import MetricError

_TABLE = Path(__file__).with_name("metrics.csv")
_PLACE = re.compile(r"<[^<>]+>")


class MetricKind(Enum):
    """What sort of quantity a metric is."""

    COUNT = "count"
    BYTES = "bytes"
    DURATION = "duration"
    RATE = "rate"
    """A quantity per second."""
    RATIO = "ratio"
    """A quantity per unit of something else."""
    SHARE = "share"
    """0 to 1."""
    FLAG = "flag"
    """0 or 1."""


class Form(Enum):
    """Where a name is used: a figure of a trial, samples over its window, or both."""

    METRIC = "metric"
    SERIES = "series"
    BOTH = "both"


class Shown(Enum):
    """How tables and charts print a value."""

    NUMBER = "number"
    """Three significant digits."""
    WHOLE = "whole"
    """Every digit before the point, in groups of three."""
    SIZE = "size"
    """Bytes with a unit of 1024s: ``16.0 MB``."""
    MEGABYTES = "megabytes"
    """Bytes as a number of MB of 10^6; the heading has the unit."""
    PERCENT = "percent"


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the table."""

    name: str
    """Name of one metric, or the pattern of a family."""
    form: Form
    unit: str
    """Empty for shares and flags; ``bytes/row`` is spelled ``bytes_per_row`` in names."""
    kind: MetricKind
    shown: Shown
    writers: tuple[str, ...]
    """Who writes it: probes by their names, and other steps of a trial; the first one names its chapter."""
    source: str
    """What the figure is read from, with versions where not all have it."""
    meaning: str
    """In sentences."""
    heading: str
    """What headings call it: ``throughput``."""

    @property
    def base(self) -> str:
        """The name without the breakdown of a family."""
        return _split(self.name)[0]

    @property
    def breakdown(self) -> str | None:
        """What stands after the dot (``<process>``); None for a name without a family."""
        return _split(self.name)[1]

    @property
    def has_total(self) -> bool:
        """Whether the name without a breakdown is a metric, too."""
        return self.breakdown is None or self.name.endswith("]")

    def fits(self, name: str) -> bool:
        """Whether it declares that name."""
        base, dot, part = name.partition(".")
        if base != self.base:
            return False
        if not dot:
            return self.has_total
        return self.breakdown is not None and _pattern(self.breakdown).fullmatch(part) is not None


def metric(name: str) -> Metric:
    """The row that declares ``name``. Raises MetricError where none does."""
    found = _by_base().get(name.partition(".")[0])
    if found is None or not found.fits(name):
        raise MetricError(
            f'metric "{name}" is not declared',
            detail=_expected(name, found),
            hint="docs/metrics.md lists every metric; a new one is a row of facts/metrics.csv.",
        )
    return found


def is_declared(name: str, form: Form) -> bool:
    """Whether the table has that name as a metric, or as a series."""
    found = _by_base().get(name.partition(".")[0])
    return found is not None and found.fits(name) and found.form in (form, Form.BOTH)


@cache
def metrics() -> tuple[Metric, ...]:
    """The whole table, in its order."""
    with _TABLE.open(newline="", encoding="utf-8") as file:
        return tuple(
            Metric(
                name=row["name"],
                form=Form(row["form"]),
                unit=row["unit"],
                kind=MetricKind(row["kind"]),
                shown=Shown(row["shown"]),
                writers=tuple(row["writers"].split("|")),
                source=row["source"],
                meaning=row["meaning"],
                heading=row["heading"] or _split(row["name"])[0],
            )
            for row in csv.DictReader(file)
        )


@cache
def _by_base() -> dict[str, Metric]:
    return {metric.base: metric for metric in metrics()}


def _split(name: str) -> tuple[str, str | None]:
    base, dot, breakdown = name.partition(".")
    return base.removesuffix("["), breakdown.removesuffix("]") if dot else None


@cache
def _pattern(breakdown: str) -> re.Pattern[str]:
    """``script<number>`` -> ``script.+``; a statement's or a variant's name may hold anything."""
    return re.compile(".+".join(map(re.escape, _PLACE.split(breakdown))), re.DOTALL)


def _expected(name: str, found: Metric | None) -> str | None:
    if found is not None:
        return f"Expected {found.name}."
    near = difflib.get_close_matches(name.partition(".")[0], _by_base(), n=3, cutoff=0.7)
    return f"Similar names: {', '.join(_by_base()[base].name for base in near)}." if near else None
