"""Rules about the time after a crash."""

from __future__ import annotations

import math

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.settings.change import Change
from walproof.units import format_duration


def recovery_prefetch(case: ServerCase) -> Found | None:
    """recovery_prefetch is off: redo waits for each page that it reads."""
    value = case.window.value("recovery_prefetch")
    if value is None:
        return None if case.major < 15 else Unseen("recovery_prefetch", "its setting is not known")
    if value != "off":
        return Fine("recovery_prefetch", f"recovery_prefetch is {value}.")
    return Advice(
        "recovery_prefetch",
        Weight.GAIN,
        "Set recovery_prefetch = try",
        (
            "recovery_prefetch is off: after a crash, and on a standby, redo waits for every page that "
            "is not cached.",
        ),
        (Change("recovery_prefetch", "try"),),
        sure=Sure.MEDIUM,
        unknown=("how many pages would not be cached",),
    )


def startup_budget(case: ServerCase) -> Found | None:
    """Whether the longest crash recovery ends before an orchestrator's start-up probe gives up."""
    budget_s = case.startup_budget_s
    if budget_s is None:
        return None
    expected_s = None if case.whatif is None else case.whatif.present.recovery_s
    if expected_s is None:
        return Unseen("startup budget", case.why_no_wal)
    longest_s = expected_s * case.recovery_band
    away = f"the longest crash recovery takes {format_duration(expected_s)}"
    if case.recovery_band > 1:
        away += f", and {format_duration(longest_s)} in 1 of 20 cases"
    if longest_s <= budget_s:
        return Fine(
            "startup budget",
            f"With the present settings {away}; the probe waits {format_duration(budget_s)}.",
        )
    # Twice the time: the cache is cold after a machine was lost, and the next load is larger.
    enough_s = math.ceil(2 * longest_s / 10) * 10
    return Advice(
        "startup budget",
        Weight.DANGER,
        f"Let the start-up probe wait {enough_s} s, or make recovery shorter",
        (
            f"With the present settings {away}, and the probe ends a server that is not up after "
            f"{format_duration(budget_s)}.",
            "A crash recovery that is ended has to start over: the server may never come up.",
        ),
        steps=(
            f"# Kubernetes: startupProbe.failureThreshold * periodSeconds >= {enough_s}",
            f"# CloudNativePG: spec.startDelay: {enough_s}",
            "# or shorter: walproof advise ... --recovery-target TIME",
        ),
        costs=("A server that hangs at its start is noticed later.",),
        sure=Sure.MEDIUM,
        unknown=("how much of the data is cached after a crash: a cold cache takes longer",),
    )


def log_checkpoints(case: ServerCase) -> Found | None:
    """log_checkpoints is off: nobody will know why a checkpoint began."""
    on = case.is_on("log_checkpoints")
    if on is None:
        return Unseen("log_checkpoints", "its setting is not known")
    if on:
        return Fine("log_checkpoints", "log_checkpoints is on.")
    return Advice(
        "log_checkpoints",
        Weight.EVIDENCE,
        "Set log_checkpoints = on",
        ("log_checkpoints is off: the log does not say why checkpoints begin and how long they sync.",),
        (Change("log_checkpoints", "on"),),
        costs=("A line for each checkpoint.",),
    )
