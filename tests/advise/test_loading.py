"""Only steps that were measured to gain are advised, and only risks that were allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.advise.findings import make_measured_trials
from tests.analysis.facts import make_plan
from walproof.advise.loading import LoadAdvice, advise_load
from walproof.analysis.summary import analyse
from walproof.facts import Cell, Load, LoadMethod, Trial, Variant
from walproof.settings.durability import DurabilityClass

RATES = {
    "every step": 100.0,
    "without late indexes": 50.0,
    "without COPY FREEZE": 100.0,
    "without triggers off": 125.0,
    "2 sessions": 150.0,
    "UNLOGGED, then SET LOGGED": 200.0,
    "plain COPY": 25.0,
}
PLAN = replace(
    make_plan(
        variants=[
            Variant(
                name,
                {},
                durability=DurabilityClass.TABLE if "UNLOGGED" in name else DurabilityClass.NONE,
                conditions=LoadMethod(sessions=2 if name == "2 sessions" else 1),
            )
            for name in RATES
        ],
        kind=Load("t", "CREATE TABLE t (x int)", 1000),
    ),
    baseline="every step",
)


def _advice(may_lose: DurabilityClass) -> LoadAdvice:
    order = {name: number for number, name in enumerate(RATES)}
    trials = make_measured_trials(PLAN, lambda cell: {"complete_rows_per_s": RATES[cell[2]]}, rounds=4)

    def wobble(trial: Trial) -> int:
        return (trial.round + order[trial.variant]) % 3

    noisy = [
        replace(
            trial,
            metrics={"complete_rows_per_s": RATES[trial.variant] * (1 + 0.01 * wobble(trial))},
        )
        for trial in trials
    ]  # fmt: skip
    (advice,) = advise_load(PLAN, analyse(PLAN, noisy, "complete_rows_per_s"), noisy, may_lose)
    return advice


def test_a_step_is_judged_by_what_leaving_it_out_costs() -> None:
    advice = _advice(DurabilityClass.NONE)
    assert [step.step for step in advice.kept] == ["late indexes"]
    assert advice.kept[0].ratio == pytest.approx(2.0, rel=0.03)
    interval = advice.kept[0].interval
    assert interval is not None
    assert interval.low < 2.0 < interval.high
    assert [step.step for step in advice.dropped] == ["COPY FREEZE", "triggers off"]
    assert [plain.variant for plain in advice.plain] == ["plain COPY"]


@pytest.mark.parametrize(("plain", "is_kept"), [(25.0, True), (100.0, False)])
def test_what_noise_leaves_open_stays_only_in_a_whole_that_gains(plain: float, is_kept: bool) -> None:
    trials = make_measured_trials(PLAN, lambda cell: {"complete_rows_per_s": RATES[cell[2]]}, rounds=4)
    rates = {**RATES, "plain COPY": plain}
    noisy = [
        replace(
            trial,
            metrics={
                "complete_rows_per_s": rates[trial.variant]
                * (2.0 if trial.variant == "without COPY FREEZE" and trial.round % 2 else 1.0)
                * (1 + 0.001 * ((trial.round * len(trial.variant)) % 3))
            },
        )
        for trial in trials
    ]
    (advice,) = advise_load(PLAN, analyse(PLAN, noisy, "complete_rows_per_s"), noisy, DurabilityClass.NONE)
    assert [step.step for step in advice.undecided] == ["COPY FREEZE"]
    assert ("COPY FREEZE" in advice.left_out) is not is_kept
    assert "late indexes" not in advice.left_out
    assert "triggers off" in advice.left_out


@pytest.mark.parametrize(
    ("may_lose", "best"),
    [(DurabilityClass.NONE, "2 sessions"), (DurabilityClass.TABLE, "UNLOGGED, then SET LOGGED")],
)
def test_a_risk_is_taken_where_it_was_allowed(may_lose: DurabilityClass, best: str) -> None:
    assert _advice(may_lose).variant.name == best


@pytest.mark.parametrize(
    ("bytes_per_row", "size"), [(400.0, "1GB"), (2e6, "4GB"), (2e7, "16GB"), (None, None)]
)
def test_max_wal_size_is_what_the_load_needs(bytes_per_row: float | None, size: str | None) -> None:
    """It was 16 GB for every load, also where the disk has less. COPY FREEZE is left out, so that its WAL is
    that of the load without it."""
    sized = [replace(v, settings={"max_wal_size": "16GB", "jit": "off"}) for v in PLAN.variants]
    plan = replace(PLAN, variants=tuple(sized))

    def metrics(cell: Cell) -> dict[str, float]:
        wal = {"without COPY FREEZE": bytes_per_row, "without late indexes": 9e9}.get(cell[2], 100.0)
        known = {} if bytes_per_row is None or wal is None else {"complete_wal_bytes_per_row": wal}
        return {"complete_rows_per_s": RATES[cell[2]], **known}

    trials = make_measured_trials(plan, metrics, rounds=4)
    (advice,) = advise_load(plan, analyse(plan, trials, "complete_rows_per_s"), trials, DurabilityClass.NONE)
    assert "COPY FREEZE" in advice.left_out
    assert advice.settings.get("max_wal_size") == size
    assert advice.settings["jit"] == "off"
