"""Dataclasses of what the native module tells: what differs between Rust and Python is found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import pytest

from tests.golden.unpack import unpack
from walproof._native import wal_recovery, wal_stats, wal_whatif
from walproof.units import Lsn
from walproof.wal.native import FieldMismatch, from_native
from walproof.wal.recovery import PoolWork, RecoveryWork
from walproof.wal.totals import Accounting, ImageTotals
from walproof.wal.whatif import ImageSample, SimulatedRun, SourceFacts, Target


@dataclass(frozen=True)
class Part:
    share: float


@dataclass(frozen=True)
class Whole:
    count: int
    at: Lsn
    is_known: bool
    method: Literal["off", "lz4"]
    reason: str | None
    parts: tuple[Part, ...]
    by_name: Mapping[str, Part]


TOLD: dict[str, Any] = {
    "count": 3, "at": 0x1000028, "is_known": True, "method": "lz4", "reason": None,
    "parts": [{"share": 0.5}, Part(1.0)], "by_name": {"a": {"share": 2}},
}  # fmt: skip


def test_told_fields_become_the_dataclass() -> None:
    whole = from_native(Whole, TOLD)
    assert whole == Whole(3, Lsn(0x1000028), True, "lz4", None, (Part(0.5), Part(1.0)), {"a": Part(2.0)})
    assert type(whole.at) is Lsn
    assert type(whole.by_name["a"].share) is float


def test_a_field_that_one_side_does_not_have_is_named() -> None:
    with pytest.raises(FieldMismatch, match="Whole: the native module does not tell reason"):
        from_native(Whole, {name: value for name, value in TOLD.items() if name != "reason"})
    with pytest.raises(FieldMismatch, match="Whole has no field more, which the native module tells"):
        from_native(Whole, {**TOLD, "more": 1})
    with pytest.raises(FieldMismatch, match="Part has no field part, which"):
        from_native(Whole, {**TOLD, "parts": [{"part": 1}]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", True), ("count", 1.5), ("count", None), ("at", "0/1000028"), ("is_known", 1),
        ("method", "gzip"), ("reason", 3), ("parts", {"share": 0.5}), ("parts", [0.5]),
        ("parts", [{"share": "0.5"}]), ("by_name", [{"share": 2}]), ("by_name", {1: {"share": 2}}),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(FieldMismatch, match=r"(Whole|Part)\.(share|" + name + "): the native module tells"):
        from_native(Whole, {**TOLD, name: value})


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[type[Any], Any]:
    """What the native module tells of a recording, by the dataclass that is made of it."""
    folder = tmp_path_factory.mktemp("wal17")
    unpack(17, folder)
    paths = [str(folder)]
    totals = wal_stats(paths, None, None, None, allow_gaps=False, partial=False, threads=1)
    simulated = wal_whatif(
        paths, None, None, None, allow_gaps=False,
        request={"targets": [Target()], "times": [], "most_pages": None, "samples": ([], (0, 0, 0)),
                 "ordered": []},
    )  # fmt: skip
    recovery = wal_recovery(
        paths, None, None, None, allow_gaps=False, buffers=[64], concurrency=None, marks=[],
        images="recorded", crashed=None, read_ahead=16,
    )  # fmt: skip
    (work,) = recovery["features"]
    return {
        Accounting: totals["accounting"], ImageTotals: totals["images"], SourceFacts: simulated["recorded"],
        ImageSample: simulated["sample"], SimulatedRun: simulated["outcomes"][0], PoolWork: work["pools"][0],
        RecoveryWork: work["work"],
    }  # fmt: skip


def test_the_native_module_tells_each_field_and_no_other(told: dict[type[Any], Any]) -> None:
    """In the order of the Rust struct, which is that of the dataclass: its documentation can be compared."""
    added = {RecoveryWork: {"start", "end", "segment_size", "pools", "pools_off"}}
    for kind, values in told.items():
        names = [field.name for field in fields(kind) if field.name not in added.get(kind, ())]
        assert list(values) == names, kind


def test_a_native_module_of_other_sources_is_noticed(told: dict[type[Any], Any]) -> None:
    for kind, values in told.items():
        if kind is not RecoveryWork and kind is not SourceFacts:
            from_native(kind, values)
        for name in values:
            with pytest.raises(FieldMismatch):
                from_native(kind, {**values, f"{name}_renamed": 0})
