"""What is divided by transactions is of the same stretch as they are."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from walproof.facts import Workload
from walproof.lab.kinds.throughput import window
from walproof.lab.trial import Measured
from walproof.postgres.cluster import Cluster
from walproof.probe.protocol import Observation, Probe
from walproof.probe.registry import COUNTING, PROBES
from walproof.workload.pgbench import PgbenchRun, Summary


class _Load:
    """Ends after 0.2 s; logs a transaction of 10 ms that ended 50 ms after its beginning."""

    pid, longest_s = 1, 10.0

    def __init__(self, folder: Path, events: list[str]) -> None:
        self.log, self.events, self.began_at = folder / "log.1", events, 0.0

    @property
    def logs(self) -> list[Path]:
        return [self.log]

    def go(self) -> None:
        self.events.append("go")
        self.began_at = time.time()
        at = self.began_at + 0.05
        self.log.write_text(f"0 1 10000 0 {int(at)} {int(at % 1 * 1e6)}\n")

    def wait_until(self, at: float) -> None:
        time.sleep(max(0.0, min(at, self.began_at + 0.2) - time.time()))

    def finish(self, _: float) -> Summary:
        return Summary(1.0, 1, None, 30.0, "")


class _Probe:
    def __init__(self, name: str, events: list[str]) -> None:
        self.name, self.events, self.read_at = name, events, 0.0

    def start(self, _: object) -> None:
        self.events.append(self.name)
        time.sleep(0.005)
        self.read_at = time.time()

    def stop(self) -> Observation:
        return Observation(opened_at=self.read_at if self.name == "wal" else None)


def _watched(
    folder: Path, warmup_s: float, rate_tps: float | None = None
) -> tuple[_Load, list[str], dict[str, _Probe], float]:
    events: list[str] = []
    load, probes = _Load(folder, events), {name: _Probe(name, events) for name in PROBES}
    workload = Workload("load", "tpcb-like", (), 1, 1, 1, 1.0, None, rate_tps, "simple", warmup_s)
    install = SimpleNamespace(version_num=180000)
    cluster = SimpleNamespace(conninfo="", data=folder, log=folder, pid=1, install=install)
    _, opened_at, closed_at = window._watch(
        cast("PgbenchRun", load),
        workload,
        cast("Cluster", cluster),
        cast("list[tuple[str, Probe]]", list(probes.items())),
        Measured(),
    )
    assert closed_at >= load.began_at + 0.2
    return load, events, probes, opened_at


def test_without_warm_up_nothing_is_done_before_the_probes_have_read(tmp_path: Path) -> None:
    load, events, _, opened_at = _watched(tmp_path, 0.0)
    assert events == [*PROBES, "go"]
    assert opened_at == pytest.approx(load.began_at + 0.04, abs=1e-4)


def test_at_a_rate_the_wait_for_the_first_transaction_is_in_the_window(tmp_path: Path) -> None:
    load, _, _, opened_at = _watched(tmp_path, 0.0, 100.0)
    assert opened_at == pytest.approx(load.began_at + 0.03, abs=5e-3)


def test_after_a_warm_up_the_window_opens_at_the_reading_of_the_wal(tmp_path: Path) -> None:
    _, events, probes, opened_at = _watched(tmp_path, 0.05)
    assert events[0] == "go"
    assert tuple(events[-len(COUNTING) :]) == COUNTING
    assert opened_at == probes["wal"].read_at
