"""Tries of a load whose statements do what the application does, or something else."""

from __future__ import annotations

from collections.abc import Mapping

from walproof.advise.workload.turns import places_of
from walproof.facts.drafted import DraftedLoad
from walproof.facts.tried import TriedLoad, TriedScript, TriedStatement

CALLS = 100


def per_call(total: float, calls: float, n: int) -> int:
    """Of call ``n``: whole numbers whose mean is ``total / calls``."""
    mean = total / calls
    return int(mean * (n + 1) + 1e-6) - int(mean * n + 1e-6)


def tried(load: DraftedLoad, times: Mapping[str, int] | None = None) -> TriedLoad:
    """``times``: file of a script -> how many times the application's rows and records it has."""
    factors = times or {}
    return TriedLoad(
        "17.10",
        tuple(
            TriedScript(
                script.file,
                tuple(
                    TriedStatement(
                        each.query,
                        *(
                            tuple(
                                factors.get(script.file, 1) * per_call(total, each.calls, n)
                                for n in range(CALLS)
                            )
                            for total in (each.rows, each.wal_records, 0.0, each.wal_bytes)
                        ),
                    )
                    for at in places_of([each.times for each in script.statements])
                    for each in (script.statements[at],)
                ),
            )
            for script in load.scripts
        ),
    )
