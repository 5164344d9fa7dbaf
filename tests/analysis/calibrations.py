"""A stored calibration, of a machine of which nothing was measured."""

from __future__ import annotations

from walproof.analysis.forecast import MachineFacts
from walproof.analysis.recovery_costs import TERMS
from walproof.facts.calibration import Calibration, CheckpointRun, ColdReplay, Machine, PhaseReplay
from walproof.wal.recovery import QUANTITIES

HERE = MachineFacts("some processor", 4, 4096)


def calibrated(machine: MachineFacts = HERE, version: str = "15.1") -> Calibration:
    """Everything costs twice what is shipped."""
    phases = []
    for number, strong in enumerate(QUANTITIES):
        for buffers in (16, 64):
            units = {name: 1000.0 if name != strong else 200_000.0 for name in QUANTITIES}
            units["record_bytes"] *= 1000
            shipped_us = sum(
                term.shipped_us * factor * units[quantity]
                for term in TERMS
                for quantity, factor in term.quantities
            )
            cost = 2e-6 * shipped_us * (1.0 + 0.01 * (buffers == 64))
            phases.append(PhaseReplay(f"phase {number}", buffers, True, cost, units))
    return Calibration(
        Machine(
            machine.cpu, machine.cores, version, machine.page_bytes, huge_pages=False, data_checksums=False
        ),
        made_at=1_700_000_000.0,
        phases=tuple(phases),
        cold=(ColdReplay("insert", 64, False, 2.0, 1.0, 1e9, 100.0),),
        checkpoints=tuple(
            CheckpointRun(f"phase {n}", 64, n, n, 10.0 * n, n / 3, False, 0, n / 1e5, 0.0)
            for n in (1, 20, 300, 4000)
        ),
        read_iops=4000.0,
        read_latency_us=250.0,
        read_ahead_kb=256,
        fresh_touch_us=16.0,
        touch_us=2.0,
    )
