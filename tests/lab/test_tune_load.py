"""What a load is, and the plans that steps of a search become."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.tune_loads import SHOP, shop
from walproof.errors import StudyError
from walproof.facts import Install, Trial, TrialState
from walproof.facts.codec import plan_hash
from walproof.facts.tuning import DEFAULT, Candidate, Objective, Purpose, Step
from walproof.facts.tuning_answers import answers
from walproof.lab.kinds.registry import lab_kind
from walproof.lab.load_file import read_load, slug
from walproof.lab.tune.load import TuningLoad
from walproof.lab.tune.steps import step_plan

SMALL = Candidate.of({"max_wal_size": "64MB"})
DELAY = Candidate.of({"commit_delay": "100"})
TPS = Objective("tps", True)


@pytest.fixture
def load(tmp_path: Path, embedded: Install) -> TuningLoad:
    tables, scripts = read_load(str(shop(tmp_path)))
    return TuningLoad("shop", tables, scripts, tmp_path, embedded, "flush=1ms", 2.0)


def _step(purpose: Purpose, *candidates: Candidate, design: str = "fresh") -> Step:
    return Step(3, purpose, candidates, 4, 77, design, "because")


def test_a_step_is_an_ordinary_plan(load: TuningLoad) -> None:
    plan = step_plan(load, "tune-shop-1", {"work_mem": "8MB"}, TPS, _step(Purpose.SEARCH, DEFAULT, SMALL))
    assert (plan.study, plan.title, plan.rounds, plan.seed) == ("tune-shop-1-3", "because", 4, 77)
    assert [variant.name for variant in plan.variants] == ["default", "max_wal_size=64MB"]
    assert plan.baseline == "default"
    assert plan.base_settings["work_mem"] == "8MB"
    assert plan.device == "flush=1ms"
    assert plan.workloads[0].duration_s == 2.0
    assert plan.toggling is None
    again = step_plan(load, "tune-shop-1", {"work_mem": "8MB"}, TPS, _step(Purpose.SEARCH, DEFAULT, SMALL))
    assert plan_hash(again) == plan_hash(plan)


def test_a_toggled_step_gives_each_candidate_the_time_of_a_trial(load: TuningLoad) -> None:
    longer = replace(load, duration_s=6.0)
    plan = step_plan(longer, "t", {}, TPS, _step(Purpose.SCREEN, DEFAULT, DELAY, design="toggled"))
    assert plan.toggling is not None
    assert plan.toggles_all
    assert plan.toggling.starts == plan.rounds == 4
    assert plan.toggling.passes * plan.toggling.slice_s == pytest.approx(6.0)


def test_what_is_not_measured_in_slices_is_measured_on_fresh_servers(load: TuningLoad) -> None:
    away = Objective("recovery_s", False)
    plan = step_plan(load, "t", {}, away, _step(Purpose.SCREEN, DEFAULT, DELAY, design="toggled"))
    assert plan.toggling is None
    assert plan.kind.added_crash is not None


def test_a_crash_of_what_is_advised_keeps_the_emulated_disk(load: TuningLoad) -> None:
    plan = step_plan(load, "t", {}, TPS, _step(Purpose.CRASH, SMALL), 30.0)
    assert plan.kind.added_crash is not None
    assert plan.device == "flush=1ms"
    assert plan.workloads[0].duration_s == 30.0


def test_emulated_disks_are_variants_of_one_configuration(load: TuningLoad) -> None:
    step = replace(_step(Purpose.FLUSH, SMALL), devices=("flush=0.5ms", "flush=2ms"))
    plan = step_plan(load, "t", {}, TPS, step)
    assert [(made.name, made.device) for made in plan.variants] == [
        ("max_wal_size=64MB", None), ("on flush=0.5ms", "flush=0.5ms"), ("on flush=2ms", "flush=2ms"),
    ]  # fmt: skip
    assert {tuple(made.settings.items()) for made in plan.variants} == {(("max_wal_size", "64MB"),)}
    assert (plan.device, plan.toggling) == ("flush=1ms", None)
    assert lab_kind(plan.kind).simulates_disk(replace(plan, device=None))
    trials = [
        Trial(
            number, 1, plan.installs[0].label, "shop", variant.name, TrialState.DONE, 0.0, 3.0, 1.0, 2.0,
            {"tps": 100.0 * number}, {},
        )
        for number, variant in enumerate(plan.variants, 1)
    ]  # fmt: skip
    found = answers(plan, step, TPS, trials)
    assert [(row.candidate, row.device, row.value) for row in found] == [
        (SMALL, None, 100.0), (SMALL, "flush=0.5ms", 200.0), (SMALL, "flush=2ms", 300.0),
    ]  # fmt: skip


def test_a_limit_on_time_away_crashes_no_server_that_shows_what_a_faster_flush_gives(
    load: TuningLoad,
) -> None:
    objective = Objective("tps", True, ("recovery_s", 1.1))
    step = replace(_step(Purpose.FLUSH, SMALL), devices=("flush=0.5ms",))
    plan = step_plan(load, "t", {}, objective, step)
    assert plan.kind.added_crash is None
    assert [made.device for made in plan.variants] == [None, "flush=0.5ms"]
    assert step_plan(load, "t", {}, objective, _step(Purpose.FINAL, SMALL)).kind.added_crash is not None


def test_answers_of_trials_that_worked_and_failed(load: TuningLoad) -> None:
    objective = Objective("tps", True, ("latency_ms_p99", 1.1))
    step = _step(Purpose.SEARCH, DEFAULT, SMALL)
    plan = step_plan(load, "t", {}, objective, step)

    def trial(number: int, variant: str, reason: str | None, **metrics: float) -> Trial:
        state = TrialState.DONE if reason is None else TrialState.FAILED
        return Trial(
            number, 1, plan.installs[0].label, "shop", variant, state, 10.0, 13.0, 11.0, 2.0, metrics, {},
            reason=reason,
        )  # fmt: skip

    found = answers(
        plan,
        step,
        objective,
        [
            trial(2, "max_wal_size=64MB", "the server ended during the load"),
            trial(1, "default", None, tps=100.0, latency_ms_p99=5.0),
        ],
    )
    assert [row.candidate for row in found] == [DEFAULT, SMALL]
    assert (found[0].value, found[0].limit_value, found[0].seconds) == (100.0, 5.0, 3.0)
    assert (found[1].value, found[1].failure) == (None, "the server ended during the load")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SHOP + SHOP.partition("\n\n")[2].replace('"shop"', '"other"'), "has 2 workloads, expected one"),
        ("title = 1\n", "has 2 mistakes"),
        (SHOP + "[replay]\n", "expected a load of pgbench"),
        ("x = [", "is not valid TOML"),
        (
            SHOP + '[[workload.statement]]\nname = "s"\nsql = "SELECT 1"\n',
            "is a study of statements, expected a load",
        ),
    ],
)
def test_what_is_no_load_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        read_load(str(shop(tmp_path, text)))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="could not read load"):
        read_load(str(tmp_path / "none.toml"))
    (tmp_path / "shop.toml").touch()
    with pytest.raises(StudyError) as caught:
        read_load(str(tmp_path))
    assert caught.value.hint == f'Is "{tmp_path}/shop.toml" meant?'


def test_a_file_name_is_part_of_a_study_name() -> None:
    assert slug("My Shop (2026)") == "my-shop-2026"
    assert slug("***") == "load"
