"""Frozen facts of a run, and the append-only store that keeps them."""

from walproof.facts.model import (
    Environment,
    Install,
    Plan,
    Reference,
    Run,
    Script,
    Series,
    Trial,
    TrialState,
    Variant,
    Workload,
)

__all__ = [
    "Environment",
    "Install",
    "Plan",
    "Reference",
    "Run",
    "Script",
    "Series",
    "Trial",
    "TrialState",
    "Variant",
    "Workload",
]
