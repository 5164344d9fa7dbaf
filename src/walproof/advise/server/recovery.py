"""Rules about the time after a crash."""

from __future__ import annotations

from walproof.advise.server.advice import Advice, Fine, Found, Sure, Unseen, Weight
from walproof.advise.server.case import ServerCase
from walproof.settings.change import Change


def recovery_prefetch(case: ServerCase) -> Found | None:
    """recovery_prefetch off: redo waits for each page that it reads."""
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


def log_checkpoints(case: ServerCase) -> Found | None:
    """log_checkpoints off: nobody will know why a checkpoint began."""
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
