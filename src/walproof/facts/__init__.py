"""Frozen facts of a run, and the append-only store that keeps them."""

from walproof.facts.model import (
    Environment,
    Install,
    LeftOut,
    Plan,
    Reference,
    Run,
    Script,
    Series,
    Statement,
    Trial,
    TrialState,
    Variant,
    Workload,
)

__all__ = [
    "Environment",
    "Install",
    "LeftOut",
    "Plan",
    "Reference",
    "Run",
    "Script",
    "Series",
    "Statement",
    "Trial",
    "TrialState",
    "Variant",
    "Workload",
]
