"""Made facts: plans and trials whose truth is known. Deterministic: the same seed, the same trials."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

from walproof.facts import Cell, Install, Kind, Plan, Throughput, Trial, TrialState, Variant, Workload
from walproof.settings.durability import DurabilityClass

INSTALL = Install("18.3", "18.3", 180003, "/pg18/bin", "given")
OLDER = Install("15.9", "15.9", 150009, "/pg15/bin", "given")


def make_workload(name: str = "scale 1", scale: int = 1, clients: int = 50) -> Workload:
    return Workload(
        name=name,
        builtin="tpcb-like",
        scripts=(),
        scale=scale,
        clients=clients,
        threads=2,
        duration_s=10.0,
        transactions=None,
        rate_tps=None,
        protocol="simple",
        warmup_s=0.0,
    )


DEFAULT = Variant("default", {})
FSYNC_OFF = Variant("fsync=off", {"fsync": "off"}, durability=DurabilityClass.CORRUPT)
ASYNC = Variant(
    "synchronous_commit=off", {"synchronous_commit": "off"}, durability=DurabilityClass.LAST_COMMITS
)
FPW_OFF = Variant("full_page_writes=off", {"full_page_writes": "off"}, durability=DurabilityClass.CORRUPT)
MINIMAL = Variant("wal_level=minimal", {"wal_level": "minimal"}, {"max_wal_senders": "0"})


def make_plan(
    variants: Sequence[Variant] = (DEFAULT, FSYNC_OFF, FPW_OFF),
    workloads: Sequence[Workload] = (make_workload(),),
    installs: Sequence[Install] = (INSTALL,),
    factors: Mapping[str, tuple[str, ...]] | None = None,
    base_settings: Mapping[str, str] | None = None,
    kind: Kind = Throughput(),  # noqa: B008 - frozen
) -> Plan:
    return Plan(
        study="made",
        title="Made",
        description="",
        kind=kind,
        installs=tuple(installs),
        driver=installs[0],
        workloads=tuple(workloads),
        base_settings=base_settings or {},
        variants=tuple(variants),
        baseline=variants[0].name,
        factors=factors or {},
        fraction="full",
        aliases=(),
        rounds=5,
        half_width=None,
        budget_s=None,
        initdb_options=(),
        checkpoint_before=False,
        probes=(),
        seed=1,
        folder="/tmp",
    )


def make_trials(
    plan: Plan,
    rounds: int,
    truth: Callable[[Cell], float],
    *,
    seed: int = 1,
    noise: float = 0.02,
    round_noise: float = 0.0,
    drift_per_trial: float = 0.0,
    metric: str = "tps",
    metrics: Mapping[str, float] | None = None,
) -> tuple[Trial, ...]:
    """Whole rounds in random order: truth(cell) times log-normal noise, of the trial and of its round."""
    chance = random.Random(seed)
    trials: list[Trial] = []
    for number in range(1, rounds + 1):
        common = chance.gauss(0, round_noise)
        for cell in chance.sample(plan.cells, len(plan.cells)):
            log = common + drift_per_trial * len(trials) + chance.gauss(0, noise)
            value = truth(cell) * math.exp(log)
            trials.append(make_trial(len(trials) + 1, number, cell, {**(metrics or {}), metric: value}))
    return tuple(trials)


def make_trial(number: int, round_number: int, cell: Cell, metrics: Mapping[str, float]) -> Trial:
    started = 1_700_000_000.0 + 20 * number
    return Trial(
        number=number,
        round=round_number,
        install=cell[0],
        workload=cell[1],
        variant=cell[2],
        state=TrialState.DONE,
        started_at=started,
        ended_at=started + 15,
        window_start=started + 3,
        window_s=10.0,
        metrics=dict(metrics),
        settings={},
    )


def fail(
    trials: Iterable[Trial], which: Callable[[Trial], bool], reason: str = "server did not start"
) -> tuple[Trial, ...]:
    """The trials, those that ``which`` picks having failed."""
    return tuple(_failed(trial, reason) if which(trial) else trial for trial in trials)


def _failed(trial: Trial, reason: str) -> Trial:
    return Trial(
        number=trial.number,
        round=trial.round,
        install=trial.install,
        workload=trial.workload,
        variant=trial.variant,
        state=TrialState.FAILED,
        started_at=trial.started_at,
        ended_at=trial.ended_at,
        window_start=None,
        window_s=None,
        metrics={},
        settings={},
        reason=reason,
    )
