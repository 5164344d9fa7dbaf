"""Small facts for tests."""

from __future__ import annotations

from walproof.facts import (
    Environment,
    Install,
    Plan,
    Series,
    Throughput,
    Trial,
    TrialState,
    Variant,
    Workload,
)
from walproof.settings.durability import DurabilityClass

INSTALL = Install("18.4", "18.4", 180004, "/opt/pg/bin", "given")


def plan(*, rounds: int = 3, variants: int = 2, seed: int = 7, budget_s: float | None = None) -> Plan:
    names = ["default", "fsync=off", "full_page_writes=off"][:variants]
    return Plan(
        study="example",
        title="What does it buy?",
        description="",
        kind=Throughput(),
        installs=(INSTALL,),
        driver=INSTALL,
        workloads=(Workload("w", "tpcb-like", (), 1, 2, 1, 5.0, None, None, "simple", 0.0),),
        base_settings={"max_wal_size": "2GB"},
        variants=tuple(
            Variant(
                name,
                {} if name == "default" else {name.split("=")[0]: "off"},
                durability=DurabilityClass.NONE if name == "default" else DurabilityClass.CORRUPT,
            )
            for name in names
        ),
        baseline="default",
        factors={},
        fraction="full",
        aliases=(),
        rounds=rounds,
        half_width=None,
        budget_s=budget_s,
        initdb_options=(),
        checkpoint_before=True,
        probes=("wal",),
        seed=seed,
        folder="/somewhere",
    )


def trial(number: int, *, round_number: int = 1, variant: str = "default", tps: float = 100.0) -> Trial:
    return Trial(
        number=number,
        round=round_number,
        install="18.4",
        workload="w",
        variant=variant,
        state=TrialState.DONE,
        started_at=1000.0 + number,
        ended_at=1000.9 + number,
        window_start=1000.2 + number,
        window_s=0.5,
        metrics={"tps": tps, "wait_share.IO:WalSync": 0.25},
        settings={"max_wal_size": "2GB"},
        warnings=("disk: no block device",),
    )


def failed(number: int, *, round_number: int = 1, variant: str = "default") -> Trial:
    return Trial(
        number=number,
        round=round_number,
        install="18.4",
        workload="w",
        variant=variant,
        state=TrialState.FAILED,
        started_at=1000.0 + number,
        ended_at=1000.1 + number,
        window_start=None,
        window_s=None,
        metrics={},
        settings={},
        reason="PostgreSQL 18.4 did not start: no",
        server_log="FATAL:  no",
    )


SERIES = Series(1, "tps", (0.5, 1.5), (90.0, 110.0))
ENVIRONMENT = Environment({"cpu": "a processor", "cores": "2"}, {"18.4": {"version": "PostgreSQL 18.4"}})
