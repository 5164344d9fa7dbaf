"""What is said while a run goes on: the widest interval, how long it will take, and what it will not tell."""

from __future__ import annotations

from walproof.analysis.effect import Effect
from walproof.analysis.within import Outlook, pilot_rounds
from walproof.facts import Plan
from walproof.sentences import say_percent
from walproof.units import format_duration


def say_outlook(plan: Plan, found: Outlook, done: int) -> tuple[str, ...]:
    """Lines after round ``done``; right after the pilot they say what the run will reach."""
    widest = found.widest
    assert widest.half_width is not None
    reach = say_percent(widest.half_width)
    line = f"round {done}: the widest interval reaches +-{reach} ({_name(plan, widest)})"
    if found.rounds_more:
        rounds = "1 more round" if found.rounds_more == 1 else f"{found.rounds_more} more rounds"
        line += f"; {rounds}, about {format_duration(found.seconds_more)}"
    if plan.half_width is None:
        if found.rounds_more:
            line += f", will come to about +-{say_percent(found.half_width_then)}"
        return (line,)
    goal = f"+-{say_percent(plan.half_width)}"
    lines = [line]
    if done > pilot_rounds(plan):
        return (line,)
    if found.wanted_more is not None and found.wanted_more > found.rounds_more:
        limit = "the budget" if plan.budget_s is not None else f"{plan.rounds} rounds at most"
        lines.append(
            f"{goal} would take {found.wanted_more} more rounds: {limit} will come to about "
            f"+-{say_percent(found.half_width_then)} ({_name(plan, found.widest_then)})"
        )
    elif found.rounds_more:
        lines[0] += f", for {goal}"
    return tuple(lines)


def _name(plan: Plan, effect: Effect) -> str:
    parts = [effect.install] if len(plan.installs) > 1 else []
    parts += [effect.workload] if len(plan.workloads) > 1 else []
    return " | ".join([*parts, effect.variant])
