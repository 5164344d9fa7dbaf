"""WAL volume and uneven checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.advise.findings import ask, make_measured_trials, sentences
from tests.analysis.facts import ASYNC, DEFAULT, FPW_OFF, MINIMAL, make_plan, make_trials, make_workload
from walproof.advise.finding import FindingKind
from walproof.facts import Cell, Plan, Trial, Variant

LARGE = make_workload("scale 50", 50)
PLAN = make_plan((DEFAULT, FPW_OFF), (LARGE,))
FLUSH_WAITS = {"wait_share.IO:WalSync": 0.8, "wait_share.CPU": 0.2}


def volume(
    saved: float, extra: Mapping[str, float] | None = None, gain: float = 1.0, rounds: int = 4
) -> tuple[Trial, ...]:
    """Runs in which the variant writes (1 - saved) of the baseline's 4000 bytes per transaction."""
    chance = make_trials(PLAN, rounds, lambda cell: 1.0, noise=0.002, seed=5)
    wobble = {trial.cell: trial.metrics["tps"] for trial in chance}

    def metrics(cell: Cell) -> Mapping[str, float]:
        is_variant = cell[2] != "default"
        bytes_per_txn = 4000 * wobble[cell] * (1 - saved if is_variant else 1)
        return {
            "wal_bytes_per_txn": bytes_per_txn,
            "wal_fpi_per_txn": 0.0 if is_variant else 0.25,
            **(extra or {}),
        }

    return make_measured_trials(
        PLAN, metrics, rounds=rounds, tps=lambda cell: 500 * (gain if cell[2] != "default" else 1)
    )


def test_bytes_saved_that_buy_nothing() -> None:
    (sentence,) = sentences(PLAN, volume(0.4, FLUSH_WAITS), FindingKind.WAL, "full_page_writes=off")
    assert re.fullmatch(
        r"full_page_writes=off saved (39|40) % \(\d+ to \d+\) of WAL bytes per transaction, "
        r"but commits wait for the flush, not for bytes",
        sentence,
    )


def test_bytes_saved_behind_a_row_lock_held_across_the_flush() -> None:
    waits = {"wait_share.Lock:tuple": 0.95, "wait_share.IO:WalSync": 0.04, "wait_share.CPU": 0.01}
    (sentence,) = sentences(PLAN, volume(0.4, waits), FindingKind.WAL, "full_page_writes=off")
    assert sentence.endswith("but commits wait for the flush, not for bytes")
    busy = {"wait_share.Lock:tuple": 0.95, "wait_share.CPU": 0.05}
    (other,) = sentences(PLAN, volume(0.4, busy), FindingKind.WAL, "full_page_writes=off")
    assert "flush" not in other


def test_bytes_saved_that_buy_throughput_or_where_nothing_is_known_of_waits() -> None:
    for trials in (volume(0.4, FLUSH_WAITS, gain=1.5), volume(0.4)):
        (sentence,) = sentences(PLAN, trials, FindingKind.WAL, "full_page_writes=off")
        assert sentence.endswith("of WAL bytes per transaction")


def test_images_that_more_transactions_share_are_no_saving() -> None:
    plan = make_plan((DEFAULT, ASYNC), (LARGE,))

    chance = make_trials(plan, 4, lambda cell: 1.0, noise=0.002, seed=5)
    wobble = {trial.cell: trial.metrics["tps"] for trial in chance}

    def metrics(cell: Cell) -> Mapping[str, float]:
        return {"wal_bytes_per_txn": (5000.0 if cell.variant == "default" else 3000.0) * wobble[cell]}

    def told(gain: float, asked: Plan = plan) -> str:
        trials = make_measured_trials(
            asked, metrics, tps=lambda cell: 500 * (gain if cell.variant != "default" else 1)
        )
        (sentence,) = sentences(asked, trials, FindingKind.WAL, "synchronous_commit=off")
        return sentence

    assert re.fullmatch(
        r"synchronous_commit=off wrote (39|40) % \(\d+ to \d+\) less WAL per transaction, with "
        r"2\.0\d?x \(.*\) the transactions in the same time: they share the page images that follow a "
        r"checkpoint, so equal work \(compare --transactions\) may write as much",
        told(2.0),
    )
    # Not more of them: then it wrote less for another reason.
    assert told(1.0).startswith("synchronous_commit=off saved ")
    of_number = replace(LARGE, duration_s=None, transactions=1000)
    assert told(2.0, make_plan((DEFAULT, ASYNC), (of_number,))).startswith("synchronous_commit=off saved ")


def test_settings_are_known_by_any_capitals_and_words() -> None:
    """FULL_PAGE_WRITES = "no" was told to be a matter of how many transactions share the images."""
    plan = make_plan((DEFAULT, Variant("typed", {"FULL_PAGE_WRITES": "no"})), (LARGE,))

    def told(bytes_per_txn: float) -> str:
        trials = make_measured_trials(
            plan,
            lambda cell: {
                "wal_bytes_per_txn": 5000.0 if cell.variant == "default" else bytes_per_txn,
                "wal_fpi_per_txn": 0.25,
            },
            tps=lambda cell: 500 * (2 if cell.variant != "default" else 1),
        )
        (sentence,) = sentences(plan, trials, FindingKind.WAL, "typed")
        return sentence

    assert told(3000.0).startswith("FULL_PAGE_WRITES=no saved 40 %")
    assert "made no notable difference" in told(5000.0)


def test_bytes_added() -> None:
    (sentence,) = sentences(PLAN, volume(-0.3, FLUSH_WAITS), FindingKind.WAL, "full_page_writes=off")
    assert re.fullmatch(
        r"full_page_writes=off added (30|31|32) % \(\d+ to \d+\) of WAL bytes per transaction", sentence
    )


def test_no_change_is_told_of_full_page_writes_alone() -> None:
    (sentence,) = sentences(PLAN, volume(0.0), FindingKind.WAL, "full_page_writes=off")
    assert re.fullmatch(
        r"full_page_writes=off made no notable difference to the WAL bytes per transaction "
        r"\(\d\.\d+x, \d\.\d+ to \d\.\d+\): default wrote 0\.25 full-page images per transaction",
        sentence,
    )
    plan = make_plan((DEFAULT, MINIMAL), (LARGE,))
    facts = {"wal_bytes_per_txn": 4000.0, "wal_fpi_per_txn": 0.25}
    assert (
        sentences(plan, make_measured_trials(plan, lambda c: facts), FindingKind.WAL, "wal_level=minimal")
        == []
    )


def test_without_figures_or_rounds_nothing_is_said() -> None:
    assert sentences(PLAN, make_trials(PLAN, 4, lambda c: 1.0), FindingKind.WAL, "full_page_writes=off") == []
    assert sentences(PLAN, volume(0.4, rounds=1), FindingKind.WAL, "full_page_writes=off") == []
    assert sentences(PLAN, volume(0.4), FindingKind.WAL, "default") == []


def test_several_settings_are_called_by_the_variants_name() -> None:
    both = Variant("lean", {"full_page_writes": "off", "wal_level": "minimal"})
    plan = make_plan((DEFAULT, both), (LARGE,))
    trials = make_measured_trials(plan, lambda c: {"wal_bytes_per_txn": 1000.0 if c[2] == "lean" else 2000.0})
    (sentence,) = sentences(plan, trials, FindingKind.WAL, "lean")
    assert sentence.startswith("lean saved 50 %")


def test_uneven_checkpoints() -> None:
    def metrics(cell: Cell) -> Mapping[str, float]:
        return {"checkpoint_active_share": 0.05 if cell[2] == "default" else 0.60}

    trials = make_measured_trials(PLAN, metrics)
    assert sentences(PLAN, trials, FindingKind.CHECKPOINT, "full_page_writes=off") == [
        "a checkpoint was active for 60 % of the measured time, and for 5.0 % with default: "
        "the ratio includes that difference"
    ]
    (finding,) = [f for f in ask(PLAN, trials) if f.kind is FindingKind.CHECKPOINT]
    assert finding.metrics == pytest.approx(
        {"checkpoint_active_share": 0.6, "baseline checkpoint_active_share": 0.05}
    )
    even = make_measured_trials(PLAN, lambda cell: {"checkpoint_active_share": 0.5})
    assert sentences(PLAN, even, FindingKind.CHECKPOINT, "full_page_writes=off") == []


def test_a_wal_level_that_changes_within_a_window() -> None:
    """From 19 a logical slot makes WAL of another level, without a restart."""
    changed = make_measured_trials(
        PLAN, lambda cell: {"wal_level_changes": 2.0} if cell[2] == "default" else {}, rounds=3
    )
    (finding,) = [f for f in ask(PLAN, changed) if f.kind is FindingKind.WAL]
    assert finding.variant == "default"
    assert finding.sentence == (
        "effective_wal_level changed within 3 of 3 windows, because a logical slot was made or dropped: "
        "their WAL is partly that of wal_level=logical"
    )
    assert len(finding.trials) == 3
    assert finding.metrics == {"wal_level_changes": 2.0}
