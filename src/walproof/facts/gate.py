"""A gate: promises about ratios of metrics, as they are typed and as a plan holds them.

``tps < 0.97x`` is typed as what must not happen: throughput below 0.97 of the baseline's. Limits are ratios
alone. Both sides are measured by the run that judges them; no number of another day is compared.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from walproof.errors import StudyError
from walproof.facts.kinds import Kind, Statements, Throughput
from walproof.facts.metrics import Form, Metric, MetricKind, is_declared, metric, metrics

OF_SLICES = ("tps", "latency_ms_avg", "wal_bytes_per_txn", "server_cpu_us_per_txn")
"""Metrics that slices of a toggled server have."""
OF_SLICED = ("tps", "wal_bytes_per_txn", "server_cpu_us_per_txn")
"""Metrics that slices of servers that take turns have: a load that is stopped has no true latencies."""
BUDGET_S = 600.0
"""Default budget of a gate, in seconds."""
ROUNDS_MOST = 200
"""Most rounds of a gate, even if its budget has room for more."""

_QUANTITIES = frozenset({MetricKind.RATE, MetricKind.RATIO, MetricKind.DURATION})
_JUDGED: dict[type[Kind], tuple[frozenset[str], frozenset[MetricKind]]] = {
    # Totals over a window say how long it was, and how fast.
    Throughput: (frozenset({"pgbench", "wal"}), _QUANTITIES),
    # Of one statement, a count is what it costs.
    Statements: (frozenset({"statements"}), _QUANTITIES | {MetricKind.COUNT, MetricKind.BYTES}),
}
"""Kinds that a gate may judge -> the metrics it may use."""
_FACTOR = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*x", re.IGNORECASE)
_SHARE = re.compile(r"([+-]?\d+(?:\.\d*)?)\s*%")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_FORM = 'A promise is a metric, "<" or ">", and a ratio: "tps < 0.97x" or "wal_bytes_per_txn > 1.02x".'


class Side(Enum):
    """The side of its limit on which a ratio breaks a promise."""

    BELOW = "<"
    ABOVE = ">"


@dataclass(frozen=True, slots=True)
class Promise:
    """What must not happen to a metric."""

    metric: str
    side: Side
    limit: float
    """A ratio to the baseline, above 0."""

    @property
    def text(self) -> str:
        """The promise as it is typed: ``tps < 0.97x``."""
        return f"{self.metric} {self.side.value} {self.limit_text}"

    @property
    def limit_text(self) -> str:
        """``0.97x``: every digit that was typed."""
        return format(Decimal(repr(self.limit)), "f").removesuffix(".0") + "x"

    def is_broken_by(self, low: float, high: float) -> bool:
        """Whether every ratio from ``low`` to ``high`` breaks it."""
        return high < self.limit if self.side is Side.BELOW else low > self.limit

    def is_kept_by(self, low: float, high: float) -> bool:
        """Whether none of them does."""
        return low >= self.limit if self.side is Side.BELOW else high <= self.limit

    @property
    def is_broken_by_no_change(self) -> bool:
        """Whether a change that changes nothing breaks it."""
        return self.is_broken_by(1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Gate:
    """What a run has to decide."""

    promises: tuple[Promise, ...]
    against: str | None = None
    """Workload that the others are compared with; None: variants are compared, or installs."""


def parse_promises(texts: Sequence[str]) -> tuple[Promise, ...]:
    """The promises of ``--fail-if``, in their order. Raises StudyError."""
    found = tuple(parse_promise(text) for text in texts)
    for index, promise in enumerate(found):
        if promise in found[:index]:
            raise StudyError(f'--fail-if "{promise.text}" is given twice', hint="Leave out one of them.")
    return found


def parse_promise(text: str) -> Promise:
    """``tps < 0.97x``. Raises StudyError. Which metrics there are depends on the kind of study: the plan's
    gate is checked for that."""
    # The last sign: what stands before it may be the name of a statement.
    at = max(text.rfind(side.value) for side in Side)
    if at < 0:
        raise StudyError(f'--fail-if "{text}" has no "<" or ">"', hint=_FORM)
    name, limit = text[:at].strip(), text[at + 1 :].strip()
    if not name or not limit or limit.startswith("=") or name.endswith(("<", ">")):
        raise StudyError(f'--fail-if "{text}" cannot be read', hint=_FORM)
    return Promise(name, Side(text[at]), _limit(text, name, text[at], limit))


def _limit(text: str, name: str, side: str, limit: str) -> float:
    if match := _FACTOR.fullmatch(limit):
        factor = float(match[1])
        if factor > 0 and math.isfinite(factor):
            return factor
        raise StudyError(f'--fail-if "{text}" has a limit of {limit}', hint="A ratio is above 0.")
    if match := _SHARE.fullmatch(limit):
        meant = " or ".join(
            f'"{name} {side} {ratio:.6g}x" ({meaning})' for ratio, meaning in _of_percent(match[1], side)
        )
        raise StudyError(
            f'--fail-if "{text}" has a limit in percent',
            hint=f"Write {meant or 'a ratio above 0, such as 0.97x'}.",
        )
    if _NUMBER.fullmatch(limit):
        raise StudyError(
            f'--fail-if "{text}" has a limit without "x"',
            detail="A gate judges ratios of what it measures on both sides; fixed numbers differ by machine "
            "and day.",
            hint=f'Write a ratio to the baseline: "{name} {side} {"0.97x" if side == "<" else "1.02x"}".',
        )
    raise StudyError(f'--fail-if "{text}" has no limit that can be read', detail=f"Got: {limit}", hint=_FORM)


def _of_percent(typed: str, side: str) -> list[tuple[float, str]]:
    """The ratios that a percentage may stand for, the nearest to no change first, each in words.

    Of the baseline, or of a change; with a sign only the latter. Without one a change is a loss where less is
    bad: nobody means "less than 3 % more".
    """
    share, has_sign = float(typed) / 100, typed[0] in "+-"
    is_loss = typed[0] == "-" if has_sign else side == Side.BELOW.value
    amount = typed.lstrip("+-")
    changed = (1 - abs(share) if is_loss else 1 + share, f"{amount} % {'less' if is_loss else 'more'}")
    found = [changed] if has_sign else [changed, (share, f"{amount} % of the baseline")]
    # Half of the baseline is half less.
    by_ratio = {round(ratio, 9): (ratio, meaning) for ratio, meaning in reversed(found) if ratio > 0}
    return sorted(by_ratio.values(), key=lambda reading: abs(reading[0] - 1))


def has_gate(kind: Kind) -> bool:
    """Whether studies of that kind may have a gate."""
    return type(kind) in _JUDGED


def may_be_judged(name: str, kind: Kind, *, slices: Sequence[str] | None = None) -> bool:
    """Whether trials of that kind have the metric as a quantity whose ratio means something.

    ``slices``: the metrics of slices, where trials have them instead of windows.
    """
    if slices is not None:
        return name in slices
    return is_declared(name, Form.METRIC) and _is_quantity(metric(name), kind)


def judged_metrics(kind: Kind, *, slices: Sequence[str] | None = None) -> tuple[str, ...]:
    """Names and patterns of all such metrics, as metrics.csv has them."""
    if slices is not None:
        return tuple(slices)
    return tuple(metric.name for metric in metrics() if _is_quantity(metric, kind))


def _is_quantity(metric: Metric, kind: Kind) -> bool:
    writers, sorts = _JUDGED.get(type(kind), (frozenset(), frozenset()))
    return not writers.isdisjoint(metric.writers) and metric.form is not Form.SERIES and metric.kind in sorts
