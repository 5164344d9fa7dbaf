"""Published figures beside ours: the columns that show both, and where the published ones come from."""

from __future__ import annotations

from walproof.facts import Plan
from walproof.report.blocks import Column


def published_columns(*quantities: str) -> tuple[Column, ...]:
    """``tps published``, ``tps here`` of each quantity."""
    return tuple(
        Column(f"{quantity} {where}", numeric=True)
        for quantity in quantities
        for where in ("published", "here")
    )


def say_source(plan: Plan, note: str | None = None) -> str | None:
    """The note under a table with published figures: a remark, then who published them."""
    said = [note] if note else []
    if plan.reference_source:
        said.append(f"Published: {plan.reference_source}.")
    return " ".join(said) or None
