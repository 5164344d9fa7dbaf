"""The tables of rules, and properties that all findings share."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

from tests.advise.findings import ask, make_measured_trials
from tests.analysis.facts import ASYNC, DEFAULT, FPW_OFF, FSYNC_OFF, MINIMAL, fail, make_plan, make_workload
from walproof.advise import effects, limits, machine, volume
from walproof.advise.finding import Finding
from walproof.advise.verdict import CELL_RULES, RUN_RULES
from walproof.facts import Cell
from walproof.probe import protocol
from walproof.settings.durability import DurabilityClass

PLAN = make_plan(
    (DEFAULT, FSYNC_OFF, ASYNC, FPW_OFF, MINIMAL), (make_workload(), make_workload("scale 50", 50))
)


def everything(cell: Cell) -> Mapping[str, float]:
    """Facts on which as many rules as possible fire."""
    return {
        "wait_share.IO:WalSync": 0.3,
        "wait_share.Lock:tuple": 0.4,
        "wait_share.LWLock:WALInsert": 0.3,
        "idle_in_transaction_avg": 4.0,
        "active_backends_avg": 6.0,
        "disk_busy_share": 0.95,
        "host_cpu_busy_share": 0.95,
        "host_cpu_steal_share": 0.1,
        "cpu_s.pgbench": 4.0,
        "wal_sync_ms_avg": 1.4,
        "wal_bytes_per_txn": 2000.0 if cell[2] == "full_page_writes=off" else 4000.0,
        "wal_fpi_per_txn": 0.2,
        "checkpoint_active_share": 0.0,
        "checkpoints_timed": 0.0,
        "checkpoints_requested": 0.0,
    }


def test_rules_read_what_probes_write() -> None:
    """The two sides share nothing but names: each one is looked for in the sources of the probes."""
    sources = "".join(path.read_text() for path in Path(protocol.__file__).parent.glob("*.py"))
    names = {name for cell in PLAN.cells for name in everything(cell)}
    rest = {name.split(".")[0] + "." if "." in name else name for name in names}
    assert {name for name in rest if name not in sources} == set()


def tps(cell: Cell) -> float:
    gain = {"fsync=off": 4.0, "synchronous_commit=off": 3.8}.get(cell[2], 1.0)
    return 500.0 * gain if cell[1] == "scale 1" else 3000.0 * gain**0.5


def full_findings() -> tuple[Finding, ...]:
    trials = make_measured_trials(PLAN, everything, tps=tps, rounds=5)
    return ask(PLAN, fail(trials, lambda trial: trial.number == 7))


def public_functions(module: ModuleType) -> set[str]:
    return {
        name
        for name, member in inspect.getmembers(module, inspect.isfunction)
        if member.__module__ == module.__name__ and not name.startswith("_")
    }


def test_every_rule_that_is_written_is_in_a_table() -> None:
    written = set().union(*(public_functions(m) for m in (effects, limits, volume, machine)))
    asked = {rule.__name__ for rule in (*CELL_RULES, *RUN_RULES)}
    assert asked == written


def test_findings_follow_the_plan() -> None:
    cells = [(f.install, f.workload, f.variant) for f in full_findings() if f.variant is not None]
    assert [cell for cell, _ in itertools.groupby(cells)] == list(PLAN.cells)


def test_every_finding_has_evidence_and_its_variants_class() -> None:
    found = full_findings()
    assert len({finding.kind for finding in found}) >= 9
    for finding in found:
        assert finding.trials, finding
        assert finding.metrics, finding
        if finding.variant is not None:
            assert finding.durability is PLAN.variant(finding.variant).durability


def test_sentences_are_one_plain_line() -> None:
    for finding in full_findings():
        assert "\n" not in finding.sentence
        assert "!" not in finding.sentence
        assert not finding.sentence.endswith(".")
        assert "nan" not in finding.sentence.split()


def test_a_ratio_never_comes_without_its_risk() -> None:
    for finding in full_findings():
        risky = finding.durability not in (None, DurabilityClass.NONE)
        if risky and finding.kind.value == "effect":
            assert finding.durability is not None
            assert finding.sentence.startswith(finding.durability.value)


def test_findings_are_json() -> None:
    text = json.dumps([asdict(f) for f in full_findings()], default=lambda m: m.value, allow_nan=False)
    assert json.loads(text)[0]["kind"]


def test_a_run_without_trials_has_no_findings() -> None:
    assert ask(PLAN, ()) == ()
