"""How a profile is kept among a trial's metrics: folded stacks with their samples, by counting method.

``profile_perf.PerformWalRecovery;heap_redo`` is the name of a stack that perf saw, outermost function first.
"""

from __future__ import annotations

from collections.abc import Mapping

KERNEL_MARK = "_[k]"
"""Ends the name of a kernel function, as in other folded stacks."""
_METHODS = ("perf", "kernel")


def profile_metrics(method: str, stacks: Mapping[str, int]) -> dict[str, float]:
    """Folded stacks with their samples as metrics; ``method`` is ``perf`` or ``kernel``."""
    return {f"{_prefix(method)}{stack}": float(count) for stack, count in stacks.items()}


def stacks_of(metrics: Mapping[str, float]) -> tuple[str, dict[tuple[str, ...], int]] | None:
    """(counting method, stack -> samples) of a trial; None when it has no profile."""
    for method in _METHODS:
        prefix = _prefix(method)
        stacks = {
            tuple(name.removeprefix(prefix).split(";")): int(value)
            for name, value in metrics.items()
            if name.startswith(prefix)
        }
        if stacks:
            return method, stacks
    return None


def _prefix(method: str) -> str:
    return f"profile_{method}."
