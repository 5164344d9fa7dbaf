"""Which rounds the intervals rest on: what was pooled, what was not, and why."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.analysis.effect import Effect
from walproof.analysis.inference.spread import Pooling, Spread
from walproof.facts import Design


def say_pooling(effects: Sequence[Effect]) -> list[str]:
    """A sentence for each way of taking spreads; it names the workloads if there are several."""
    groups: dict[tuple[str, str, str, Design], list[Effect]] = {}
    for effect in effects:
        if effect.design is Design.TOGGLED:
            continue  # Slices of a variant say nothing of another's.
        # Installs that are compared with the first are taken together by themselves.
        key = (effect.install, effect.workload, effect.baseline.install, effect.design)
        groups.setdefault(key, []).append(effect)
    said: dict[str, list[str]] = {}
    are_several = len({design for *_, design in groups}) > 1
    for (install, workload, first, design), members in groups.items():
        known = [effect.spread for effect in members if effect.spread is not None]
        if not known:
            continue
        where = workload if first == install else f"{workload}, {install} against {first}"
        where += f", design {design.value}" if are_several else ""
        said.setdefault(_sentence(known, members), []).append(where)
    if len(said) == 1:
        return [f"{sentence}." for sentence in said]
    return [f"{', '.join(dict.fromkeys(places))}: {sentence}." for sentence, places in said.items()]


def _sentence(known: Sequence[Spread], members: Sequence[Effect]) -> str:
    spread = known[0]
    alone = max(effect.n for effect in members) - 1
    if spread.pooling is Pooling.ALL:
        return (
            "How much a ratio varies is known from all variants and the baseline together, because their "
            f"spreads do not contradict it ({_degrees(spread)} degrees of freedom instead of {alone})"
        )
    if spread.pooling is Pooling.VARIANTS:
        return (
            "How much a ratio varies is known from all variants together, and of the baseline from its rounds"
            f" alone, because it varies more ({_degrees(spread)} degrees of freedom instead of {alone})"
        )
    if len(known) == 1:
        return f"The one ratio is judged from its rounds alone ({_degrees(spread)} degrees of freedom)"
    return "Variants vary differently, so each ratio is judged from its rounds alone"


def _degrees(spread: Spread) -> str:
    """Three significant digits, no more of a whole number than it has: ``3``, ``36``, ``4.27``, ``1250``."""
    return f"{spread.degrees:.0f}" if spread.degrees >= 999.5 else f"{spread.degrees:.3g}"
