"""Every metric that the source names is declared, and every declared one is written: checked on the source.

What runs is watched as well (tests/declared.py). This finds what no test runs: a report's table that asks for
a name that nothing writes any more, or a new name that has no row in facts/metrics.csv.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.facts.names import QUALIFIERS
from walproof.errors import MetricError
from walproof.facts.metrics import Form, Metric, is_declared, metric, metrics
from walproof.probe.registry import PROBES
from walproof.wal.recovery import QUANTITIES

SOURCE = Path(__file__).parent.parent / "src" / "walproof"
LIVE = ("probe", "lab")
OFFLINE = ("analysis", "advise", "report")

# Mappings from names of metrics to their values, as the source calls them: in the first, any string is one.
HOLDERS = {"metrics", "mean", "baseline_mean"}
# Functions that take a metric's name, and the argument that it is.
ACCESSORS = {
    "median": 1, "values": 1, "shown": 1, "shares": 1, "parts": 0, "positive_metric": 1, "effects": 2,
    "analyse": 2, "middle": 0, "_median": 1, "metric": 0,
}  # fmt: skip
# Strings that are shaped like metrics, and what they are.
OTHERS = {
    "rate_tps": "a field of Workload",
    "flush_s": "a figure of a finding", "work_s": "a figure of a finding",
    "lock_share": "a figure of a finding", "removed_share": "a figure of a finding",
    "window_ms_p95": "a field of CutSummary",
    "flush_us": "a key of walproof disk --json",
    "sync_ms": "a column of a query",
    "duration_s": "a field of Overrides", "warmup_s": "a field of Overrides",
    "settle_s": "a field of Overrides", "time_limit_s": "a key of the assistant's overview",
    "budget_s": "a field of Overrides", "power_cut_images": "a field of Overrides",
    "quick_rows": "a field of LoadTable", "text_bytes": "a column of a query",
}  # fmt: skip
# Pages about WAL, a running server or standby, and the machine: their keys are of other facts than a trial's.
OTHER_FACTS = (
    "advise/server/", "report/advice/", "report/wal/", "report/watch/", "report/replica.py",
    "probe/environment.py", "advise/tune/", "report/tune/", "cli/tune_plan.py",
    "cli/tune_prepare.py", "cli/tuning.py",
    "cli/workload_said.py", "advise/workload/likeness.py",
)  # fmt: skip

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_FAMILY = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+\.")
# Put together of a phase's name and its unit alone.
PHASES = {"first_read_s", "vacuum_s"}
_SPELLED_LEAST = 6
"""Characters of an f-string that have to be spelled for it to stand for a name."""
_UNITS = {
    "s",
    "ms",
    "us",
    "bytes",
    "share",
    "tps",
    "txn",
    "row",
    "rows",
    "record",
    "records",
    "images",
    "fpi",
}


def _files(packages: tuple[str, ...]) -> list[Path]:
    return [path for package in packages for path in sorted((SOURCE / package).rglob("*.py"))]


@dataclass(frozen=True)
class _Seen:
    """What the checks ask of a file; place is its name with a line."""

    strings: tuple[tuple[str, str], ...]
    """(place, text) of each string."""
    beginnings: frozenset[str]
    """What the file's f-strings begin with: a part of a name may stand apart from it."""
    composed: tuple[str, ...]
    """The f-strings as regular expressions."""
    asked_for: tuple[tuple[str, str], ...]
    """(place, regular expression) of strings that can only be names of metrics."""


@cache
def _seen(path: Path) -> _Seen:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    strings, beginnings, composed = [], set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings.append((_place(path, node), node.value))
        elif isinstance(node, ast.JoinedStr):
            composed.append(_regex(node, {}) or "")
            if isinstance(node.values[0], ast.Constant):
                beginnings.add(str(node.values[0].value))
    asked_for = tuple((_place(path, node), pattern) for node, pattern in _asked_for(tree))
    return _Seen(tuple(strings), frozenset(beginnings), tuple(composed), asked_for)


def _place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"


def _is_shaped_like_a_metric(text: str) -> bool:
    """Words that end in a unit, but for a statistic or the like after it."""
    if not _NAME.fullmatch(text):
        return False
    words = text.split("_")
    while len(words) > 1 and words[-1] in QUALIFIERS:
        words.pop()
    return words[-1] in _UNITS and len(words) > 1


def _known(name: str) -> bool:
    """Whether a family or a metric has that name before the dot."""
    return name in _bases()


@cache
def _bases() -> frozenset[str]:
    return frozenset(one.base for one in metrics())


def test_strings_that_look_like_metrics_are_declared() -> None:
    wrong = [
        f"{place}: {text}"
        for path in _files((*LIVE, *OFFLINE, "cli"))
        if not str(path.relative_to(SOURCE)).startswith(OTHER_FACTS)
        for place, text in _seen(path).strings
        if _is_shaped_like_a_metric(text)
        and text not in OTHERS
        and text not in QUANTITIES
        and not _known(text)
        and not any(_known(beginning + text) for beginning in _seen(path).beginnings)
    ]
    assert not wrong, f"declare it in facts/metrics.csv, or say in OTHERS what it is: {wrong}"


def test_families_are_declared() -> None:
    wrong = [
        f"{place}: {text}"
        for path in _files((*LIVE, *OFFLINE))
        for place, text in _seen(path).strings
        if _FAMILY.fullmatch(text) and text != "recovery_min_apply_delay." and not _known(text[:-1])
    ]
    assert not wrong, wrong


def test_what_is_asked_for_by_name_is_declared() -> None:
    wrong = [
        f"{place}: {pattern}"
        for path in _files((*LIVE, *OFFLINE, "cli"))
        for place, pattern in _seen(path).asked_for
        if not (
            _is_name(pattern) or pattern in OTHERS or any(re.fullmatch(pattern, name) for name in _examples())
        )
    ]
    assert not wrong, wrong


def _is_name(pattern: str) -> bool:
    """Whether it is a declared name, spelled out."""
    name = pattern.replace("\\", "")
    return is_declared(name, Form.METRIC)


def test_the_checks_see_what_is_asked_for() -> None:
    """Oracle of the three above: names that are known to be there are found, and a wrong one is not known."""
    asked = {pattern for path in _files((*LIVE, *OFFLINE)) for _, pattern in _seen(path).asked_for}
    assert {"tps", "wal_fpi_per_txn", "complete_wal_bytes", "disk_busy_share", "client_busy"} <= asked
    assert "latency_ms_(?:.+)" in asked
    assert "wal_bytes_decoded\\.(?:.+)" in asked
    assert _is_shaped_like_a_metric("wal_fsync_ms_avg")
    assert not _known("wal_fsync_ms_avg")
    assert len(asked) > 80


def _asked_for(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Strings that can only be names of metrics, as regular expressions."""
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }  # fmt: skip
    for node in ast.walk(tree):
        asked: list[ast.expr] = []
        if isinstance(node, ast.Subscript) and _holds(node.value):
            asked = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            asked = node.args[:1] if _holds(node.func.value) else []
        elif (
            isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In) and _holds(node.comparators[0])
        ):
            asked = [node.left]
        elif isinstance(node, ast.Call):
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if called == "pick":
                asked = node.args
            elif called in ACCESSORS:
                asked = node.args[ACCESSORS[called] :][:1]
        for one in asked:
            pattern = _regex(one, constants)
            if pattern is not None:
                yield one, pattern


def _holds(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.removeprefix("_") in HOLDERS


def _regex(node: ast.expr, constants: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name) and node.id in constants:
        return re.escape(constants[node.id])
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            re.escape(str(part.value)) if isinstance(part, ast.Constant) else "(?:.+)" for part in node.values
        )
    return None


@cache
def _examples() -> tuple[str, ...]:
    """Names that are declared: of families the beginning alone, too, as a prefix is asked for."""
    return tuple(name for one in metrics() for name in _examples_of(one))


def _examples_of(one: Metric) -> tuple[str, ...]:
    if one.breakdown is None:
        return (one.base,)
    return (one.base, f"{one.base}.", f"{one.base}.{one.breakdown.replace('<', '').replace('>', '')}")


def test_every_declared_metric_is_written() -> None:
    """No row is left over. Names that are put together match as far as they are spelled."""
    paths = [*_files((*LIVE, *OFFLINE)), SOURCE / "facts" / "profile.py"]
    spelled = {text for path in paths for _, text in _seen(path).strings}
    patterns = [
        pattern
        for path in paths
        for pattern in _seen(path).composed
        if len(pattern.replace("(?:.+)", "").replace("\\", "")) >= _SPELLED_LEAST
    ]
    left_over = [
        one.name
        for one in metrics()
        if one.base not in spelled | PHASES
        and not any(re.fullmatch(pattern, name) for pattern in patterns for name in _examples_of(one))
    ]
    assert not left_over, left_over


def test_probes_are_writers() -> None:
    """A new probe declares what it observes under its own name."""
    writers = {writer for one in metrics() for writer in one.writers}
    assert set(PROBES) <= writers


@pytest.mark.parametrize("path", sorted((SOURCE / "studies").glob("*.toml")), ids=lambda path: path.stem)
def test_published_figures_have_declared_names(path: Path) -> None:
    figures = tomllib.loads(path.read_text()).get("reference", {}).get("figure", [])
    for figure in figures:
        for name in figure.get("metrics", {}):
            assert is_declared(name, Form.METRIC), name


def test_an_undeclared_name_says_what_is_near() -> None:
    with pytest.raises(MetricError) as caught:
        metric("wal_byte")
    assert str(caught.value) == 'metric "wal_byte" is not declared'
    assert "wal_bytes" in str(caught.value.detail)
