"""Stored facts to report on: a seeded, small, realistic run in the shape of the durability study."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from walproof.facts import (
    Environment,
    Install,
    Plan,
    Reference,
    Run,
    Series,
    Throughput,
    Trial,
    TrialState,
    Variant,
    Workload,
)
from walproof.facts.store import Store
from walproof.settings.durability import DurabilityClass

NONE, LAST, CORRUPT = DurabilityClass.NONE, DurabilityClass.LAST_COMMITS, DurabilityClass.CORRUPT

_VARIANTS = (
    Variant("default", {}),
    Variant(
        "pgtune",
        {"shared_buffers": "512MB", "wal_buffers": "16MB", "max_wal_size": "4GB"},
        note="pgtune's block",
    ),
    Variant("wal_level=minimal", {"wal_level": "minimal"}, {"max_wal_senders": "0"}),
    Variant("fsync=off", {"fsync": "off"}, durability=CORRUPT),
    Variant("synchronous_commit=off", {"synchronous_commit": "off"}, durability=LAST),
    Variant("full_page_writes=off", {"full_page_writes": "off"}, durability=CORRUPT),
    Variant(
        "all three off",
        {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"},
        durability=CORRUPT,
    ),
)
_RELAXED = {"fsync=off", "synchronous_commit=off", "all three off"}
_T0 = 1_795_000_000.0
_WINDOW_S = 12


@dataclass(frozen=True, slots=True)
class Facts:
    """What the store gives for a run."""

    run: Run
    trials: tuple[Trial, ...]
    series: tuple[Series, ...]


def make_plan(rounds: int = 5, **changes: object) -> Plan:
    install = Install("18.3", "18.3", 180003, "/opt/pg18/bin", "embedded")

    def workload(scale: int) -> Workload:
        return Workload(
            f"scale {scale}", "tpcb-like", (), scale, 50, 2, float(_WINDOW_S), None, None, "simple", 2.0
        )

    plan = Plan(
        study="durability",
        title="What does each durability setting buy on this machine?",
        description="pgbench's TPC-B-like transaction with 50 clients,\nsettings relaxed one by one.",
        kind=Throughput(),
        installs=(install,),
        driver=install,
        workloads=(workload(1), workload(50)),
        base_settings={"log_checkpoints": "on"},
        variants=_VARIANTS,
        baseline="default",
        factors={},
        fraction="full",
        aliases=(),
        rounds=rounds,
        half_width=None,
        budget_s=None,
        initdb_options=(),
        checkpoint_before=True,
        probes=("wal", "checkpoints", "waits", "cpu", "io", "disk"),
        seed=1,
        folder="/var/tmp/walproof",
        references=(
            Reference("default", "scale 1", 582.17, 85.816, 218.953),
            Reference("pgtune", "scale 1", 580.58, 86.051, 207.381),
            Reference("fsync=off", "scale 1", 3525.12, 14.178, 15.149),
            Reference("synchronous_commit=off", "scale 1", 3445.07, 14.507, 15.216),
        ),
        reference_source="PostgreSQL 14.3 in a 4-core virtual machine, one run each",
    )
    return replace(plan, **changes)  # type: ignore[arg-type]


def make_trials(plan: Plan, rounds: int, seed: int = 7) -> tuple[tuple[Trial, ...], tuple[Series, ...]]:
    """Trials as the lab would store them, with a slow drift of the machine; one cell fails twice."""
    rng = random.Random(seed)
    trials: list[Trial] = []
    series: list[Series] = []
    now = _T0
    for round_ in range(1, rounds + 1):
        cells = list(plan.cells)
        random.Random(f"{plan.seed}/{round_}").shuffle(cells)
        for install, workload, variant in cells:
            number = len(trials) + 1
            relaxed = variant in _RELAXED or "fsync=off" in variant
            base = (1900.0, 4300.0)[relaxed] if workload.startswith("scale 50") else (640.0, 3700.0)[relaxed]
            tps = base * (1 - 0.004 * round_) * rng.lognormvariate(0, 0.02)
            if variant == "wal_level=minimal" and round_ == 3:
                tps *= 0.7
            failed = variant == "pgtune" and workload == "scale 50" and round_ in (2, 4)
            common = {
                "number": number,
                "round": round_,
                "install": install,
                "workload": workload,
                "variant": variant,
                "started_at": now,
                "ended_at": now + _WINDOW_S + 3.5,
                "window_start": now + 2.5,
                "window_s": float(_WINDOW_S),
                "settings": dict(plan.variant(variant).settings),
            }
            if failed:
                trials.append(
                    Trial(
                        **common,  # type: ignore[arg-type]
                        state=TrialState.FAILED,
                        metrics={},
                        reason="the server did not start: could not map anonymous shared memory",
                        server_log="FATAL:  could not map anonymous shared memory: Cannot allocate memory\n"
                        "HINT:  This error usually means that PostgreSQL's request exceeded memory.",
                    )
                )
            else:
                metrics = _metrics(rng, tps, relaxed, workload, variant)
                warnings = ("waits were sampled at 7.4 Hz, less than 8",) if number % 11 == 0 else ()
                trials.append(Trial(**common, state=TrialState.DONE, metrics=metrics, warnings=warnings))  # type: ignore[arg-type]
                if variant != "full_page_writes=off":
                    t_s = tuple(float(t) for t in range(_WINDOW_S))
                    values = tuple(tps * rng.lognormvariate(0, 0.05) * (0.6 if t == 8 else 1) for t in t_s)
                    series.append(Series(number, "tps", t_s, values))
            now += _WINDOW_S + 4
    return tuple(trials), tuple(series)


def _metrics(rng: random.Random, tps: float, relaxed: bool, workload: str, variant: str) -> dict[str, float]:
    average = 50_000 / tps
    metrics = {
        "tps": tps,
        "transactions": tps * _WINDOW_S,
        "failed_transactions": 0.0,
        "latency_ms_avg": average,
        "latency_ms_stddev": average * (1.1 if relaxed else 2.2),
        "latency_ms_p50": average * 0.7,
        "latency_ms_p95": average * rng.uniform(2.4, 2.8),
        "latency_ms_p99": average * rng.uniform(4.5, 6),
        "wal_bytes_per_txn": 560.0 if variant != "full_page_writes=off" else 455.0,
        "wal_fpi_per_txn": 0.0 if "full_page" in variant or "three" in variant else 0.02,
        "wal_records": 7 * tps * _WINDOW_S,
        "wal_fpi": 0.02 * tps * _WINDOW_S,
        "wal_since_redo_bytes_start": 120_000.0,
        "checkpoints_timed": 0.0,
        "checkpoints_requested": 1.0 if relaxed and rng.random() < 0.3 else 0.0,
        "checkpoints_immediate": 0.0,
        "checkpoint_active_share": 0.1 if relaxed else 0.0,
        "active_backends_avg": 47.0,
        "host_cpu_busy_share": 0.97 if relaxed else 0.35,
        "host_cpu_iowait_share": 0.0 if relaxed else 0.4,
        "host_cpu_steal_share": 0.002,
        "cpu_us_per_txn.client_backend": 310.0 * rng.uniform(0.97, 1.03),
        "cpu_us_per_txn.walwriter": 12.0,
        "cpu_us_per_txn.checkpointer": 3.0,
        "cpu_us_per_txn.pgbench": 90.0,
        "write_bytes_per_txn.client_backend": 4100.0 if not relaxed else 30.0,
        "write_bytes_per_txn.walwriter": 20.0 if not relaxed else 600.0,
        "write_bytes_per_txn.checkpointer": 55.0,
        "disk_busy_share": 0.08 if relaxed else 0.96,
        "disk_writes_per_s": 40.0 if relaxed else 1300.0,
        "disk_kib_per_write": 60.0 if relaxed else 5.1,
        "disk_ms_per_write": 0.7,
        "disk_write_bytes": 2.0e7 if relaxed else 8.0e7,
    }
    waits = (
        {
            "Lock:transactionid": 0.46,
            "Lock:tuple": 0.20,
            "LWLock:WALWrite": 0.2,
            "IO:WalSync": 0.04,
            "CPU": 0.1,
        }
        if not relaxed and workload == "scale 1"
        else {"LWLock:WALWrite": 0.71, "IO:WalSync": 0.14, "IO:DataFileRead": 0.03, "CPU": 0.12}
        if not relaxed
        else {"Lock:transactionid": 0.5, "Lock:tuple": 0.25, "LWLock:BufferContent": 0.05, "CPU": 0.2}
        if workload == "scale 1"
        else {"Client:ClientRead": 0.1, "LWLock:WALInsert": 0.07, "IO:DataFileExtend": 0.03, "CPU": 0.8}
    )
    if variant != "wal_level=minimal":
        metrics |= {f"wait_share.{event}": share for event, share in waits.items()}
    if not relaxed:
        metrics["wal_sync_ms_avg"] = 1.3
    return metrics


def make_run(plan: Plan, finished: bool = True) -> Run:
    return Run(
        id="durability-20261118-0613-4f2a",
        plan=plan,
        command=("run", "durability", "--duration", "12s"),
        created_at=_T0,
        walproof_version="0.1.0",
        environment=Environment(
            facts={
                "cpu": "Example CPU @ 2.50 GHz",
                "cores": "2",
                "memory_bytes": "4294967296",
                "kernel": "Linux 6.1.0 x86_64",
                "filesystem": "ext4",
                "disk": "vda",
                "disk_write_cache": "write back",
            },
            installs={"18.3": {"version": "PostgreSQL 18.3", "configure": "--without-icu"}},
        ),
        finished_at=_T0 + 1300 if finished else None,
    )


@cache
def durability() -> Facts:
    """Seven variants, two workloads, five rounds, two failed trials, one variant without series."""
    return make_facts()


def keep(stored: Facts, file: Path) -> None:
    """Make a store of the run, which is finished."""
    store = Store(file)
    run = store.add_run(
        stored.run.plan, stored.run.command, stored.run.environment, stored.run.walproof_version
    )
    for trial in stored.trials:
        store.add_trial(run.id, trial)
    store.finish_run(run.id)
    store.close()


def make_facts(rounds: int = 5, *, planned: int | None = None, **changes: object) -> Facts:
    """A run of the durability study with so many whole rounds."""
    plan = make_plan(planned or rounds, **changes)
    trials, series = make_trials(plan, rounds)
    return Facts(make_run(plan, finished=planned is None), trials, series)


def small_facts(rounds: int = 5) -> Facts:
    """Three variants, one workload: short enough to be read whole."""
    plan = make_plan()
    variants = tuple(plan.variant(name) for name in ("default", "fsync=off", "synchronous_commit=off"))
    return make_facts(rounds, variants=variants, workloads=plan.workloads[:1])


def factorial_facts() -> Facts:
    """A full factorial of two settings, four cells."""
    factors = {"fsync": ("on", "off"), "wal_compression": ("off", "pglz")}
    variants = tuple(
        Variant(
            f"fsync={fsync}, wal_compression={compression}",
            {"fsync": fsync, "wal_compression": compression},
            durability=CORRUPT if fsync == "off" else NONE,
            levels={"fsync": fsync, "wal_compression": compression},
        )
        for fsync in factors["fsync"]
        for compression in factors["wal_compression"]
    )
    return make_facts(variants=variants, factors=factors, baseline=variants[0].name, references=())


def two_installs_facts() -> Facts:
    """One variant on two versions."""
    plan = make_plan()
    old = Install("15.14", "15.14", 150014, "/usr/lib/postgresql/15/bin", "system")
    return make_facts(
        installs=(old, plan.installs[0]),
        variants=plan.variants[:1],
        workloads=plan.workloads[:1],
        references=(),
    )


HOSTILE = '<script>alert(1)</script> | `x` "q" & \x1b[31m \ud800 ](https://evil.example) #'
"""A name that tries HTML, Markdown and a terminal at once."""


def hostile_facts() -> Facts:
    """Names, reasons, logs and facts of the machine that try to be markup."""
    plan = make_plan()
    variants = (plan.variants[0], Variant(HOSTILE, {"a": HOSTILE}, durability=LAST, note=HOSTILE))
    plan = replace(
        plan,
        title=HOSTILE,
        description=HOSTILE,
        kind=Throughput(),
        variants=variants,
        workloads=tuple(replace(w, name=f"{w.name} {HOSTILE}") for w in plan.workloads[:1]),
        references=(Reference(HOSTILE, None, 1000.0),),
        reference_source=HOSTILE,
    )
    trials, series = make_trials(plan, 3)
    broken = replace(
        trials[-1],
        state=TrialState.FAILED,
        metrics={},
        reason=HOSTILE,
        server_log=f"LOG: {HOSTILE}\n```\n</pre>",
    )
    warned = replace(
        trials[0],
        warnings=(HOSTILE,),
        metrics={**trials[0].metrics, f"wait_share.{HOSTILE}": 0.2, "wal_fpi": float("nan")},
    )
    run = make_run(plan)
    run = replace(run, id=HOSTILE, environment=Environment({"cpu": HOSTILE}, {"18.3": {HOSTILE: HOSTILE}}))
    return Facts(run, (warned, *trials[1:-1], broken), series)


MAKERS: Mapping[str, Callable[[], Facts]] = {
    "durability": durability,
    "factorial": factorial_facts,
    "two installs": two_installs_facts,
    "hostile": hostile_facts,
    "one round": partial(small_facts, 1),
    "no trials": partial(make_facts, 0),
}
"""Every kind of facts that a renderer has to show whole."""
