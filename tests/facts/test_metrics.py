"""The table of metrics: what a row may say, how names are looked up, and that names carry their unit last."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.facts.names import QUALIFIERS
from walproof.errors import MetricError
from walproof.facts import Crash
from walproof.facts.metrics import Form, Metric, MetricKind, Shown, is_declared, metric, metrics
from walproof.report.kinds.throughput.crashes import more_recoveries
from walproof.wal.recovery import QUANTITIES

ROOT = Path(__file__).parents[2]
ALL = pytest.mark.parametrize("metric", metrics(), ids=lambda row: row.name)

SHOWN = {
    MetricKind.COUNT: {Shown.NUMBER, Shown.WHOLE},
    MetricKind.BYTES: {Shown.SIZE, Shown.WHOLE, Shown.MEGABYTES},
    MetricKind.DURATION: {Shown.NUMBER},
    MetricKind.RATE: {Shown.NUMBER, Shown.MEGABYTES},
    MetricKind.RATIO: {Shown.NUMBER},
    MetricKind.SHARE: {Shown.PERCENT},
    MetricKind.FLAG: {Shown.NUMBER},
}
TIMES = ("s", "ms", "us")
# Units that have a dimension and so stand in the name; a count has the noun that it counts instead.
# A kB is of 1024 bytes.
SPELLED = {"bytes": "bytes", "kB": "kib", "MB": "mb", "s": "s", "ms": "ms", "us": "us"}
# Names older than the rule: cores that somebody used.
WITHOUT_UNIT = {"client_busy", "server_busy"}


@pytest.mark.parametrize(
    ("name", "declared_as"),
    [
        ("tps", "tps[.script<number>]"),
        ("tps.script1", "tps[.script<number>]"),
        ("cpu_s.checkpointer", "cpu_s.<process>"),
        ("wait_share.IO:WalSync", "wait_share.<event>"),
        ("lag_bytes_max", "lag_bytes_max[.<stage>]"),
        ("lag_bytes_max.network", "lag_bytes_max[.<stage>]"),
        ("wal_operation_bytes.a.b|Heap/INSERT", "wal_operation_bytes.<statement|operation>"),
        ("wal_bytes_decoded.line\nfeed", "wal_bytes_decoded[.<statement>]"),
        ("profile_perf.PerformWalRecovery;heap_redo_[k]", "profile_perf.<stack>"),
    ],
)
def test_a_name_is_found_by_its_pattern(name: str, declared_as: str) -> None:
    assert metric(name).name == declared_as
    assert metric(name).fits(name)


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("cpu_s", "Expected cpu_s.<process>."),
        ("cpu_s.", "Expected cpu_s.<process>."),
        ("tps.1", "Expected tps[.script<number>]."),
        ("wal_fpi_share.checkpointer", "Expected wal_fpi_share."),
        ("latency_ms_p90", "Similar names: latency_ms_p99, latency_ms_p95, latency_ms_p50."),
        ("zzz", None),
    ],
)
def test_an_undeclared_name_is_an_error_that_says_what_is_near(name: str, detail: str | None) -> None:
    with pytest.raises(MetricError) as caught:
        metric(name)
    assert (caught.value.message, caught.value.detail) == (f'metric "{name}" is not declared', detail)
    assert caught.value.hint is not None
    assert not is_declared(name, Form.METRIC)


def test_a_series_is_no_metric() -> None:
    assert is_declared("checkpoint", Form.SERIES)
    assert not is_declared("checkpoint", Form.METRIC)
    assert is_declared("wal_bytes", Form.METRIC)
    assert not is_declared("wal_bytes", Form.SERIES)
    assert is_declared("tps", Form.METRIC)
    assert is_declared("tps", Form.SERIES)


def test_names_are_declared_once() -> None:
    bases = [metric.base for metric in metrics()]
    assert len(bases) == len(set(bases))


@ALL
def test_a_row_is_whole(metric: Metric) -> None:
    assert metric.meaning[0].isupper() or metric.meaning[0].isdigit(), "a sentence begins so"
    assert metric.meaning.endswith(".")
    assert metric.source
    assert all(metric.writers)
    assert metric.shown in SHOWN[metric.kind]
    assert (metric.unit == "") is (metric.kind in (MetricKind.SHARE, MetricKind.FLAG))
    assert ("/" in metric.unit) is (
        metric.kind in (MetricKind.RATE, MetricKind.RATIO)
    ) or metric.base in WITHOUT_UNIT
    assert metric.unit.endswith("/s") or metric.unit == "MB/CPU s" or metric.kind is not MetricKind.RATE
    assert (metric.unit == "bytes") is (metric.kind is MetricKind.BYTES)
    assert (metric.unit in TIMES) is (metric.kind is MetricKind.DURATION)


@ALL
def test_the_unit_is_last(metric: Metric) -> None:
    """Declared units are in the names, and units in the names are the declared ones."""
    words = metric.base.split("_")
    while len(words) > 1 and words[-1] in QUALIFIERS:
        words.pop()
    name = "_".join(words)
    if metric.base not in WITHOUT_UNIT:
        for wanted in _spelled(metric):
            assert name == wanted or name.endswith(f"_{wanted}"), wanted
    last, is_rate = words[-1], "per" in words
    if last == "share":
        assert metric.kind is MetricKind.SHARE
    if last in {*TIMES, "bytes"} and not is_rate:
        assert metric.unit == last
    if is_rate or last == "tps":
        assert metric.kind in (MetricKind.RATE, MetricKind.RATIO)


def _spelled(metric: Metric) -> list[str]:
    """How the name has to end, but for a statistic."""
    if metric.kind is MetricKind.SHARE:
        return ["share"]
    if metric.unit == "transactions/s":
        return ["tps"]
    over, slash, under = metric.unit.partition("/")
    of = "_".join(under.lower().split())
    if over in SPELLED:
        return [SPELLED[over] + (f"_per_{of}" if slash else "")]
    return [f"per_{of}"] if slash else []


def test_what_is_predicted_of_a_recovery_is_declared() -> None:
    for quantity in (*QUANTITIES, "resident", "spilled", "runs", "segments"):
        assert is_declared(f"predicted_{quantity}.a variant", Form.METRIC), quantity


def test_every_recovery_with_less_at_hand_is_declared() -> None:
    more = more_recoveries(Crash(cold=True, iops=100, power_cut=True))
    assert len(more) == 3
    for recovery in more:
        for what in ("redo_s", "cpu_s", "s"):
            assert is_declared(f"recovery_{recovery.prefix}_{what}", Form.METRIC)


def test_the_table_is_in_the_wheel() -> None:
    """Every file of data in the package is named by package-data."""
    package = ROOT / "src" / "walproof"
    globs = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    named = {path for glob in globs["walproof"] for path in package.glob(glob)}
    there = {
        path for path in package.rglob("*.*") if path.is_file() and path.suffix not in (".py", ".pyc", ".so")
    }
    assert package / "facts" / "metrics.csv" in named
    assert there - named - set(package.glob("*.pyi")) == set()
