"""Whole starts (of servers of their own: whole rounds) of all finished runs in some folders, by design."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from walproof.facts import Plan, Trial
from walproof.facts.store import Store

Start = list[Trial]
"""The trials of one round: one where slices are compared, one of each variant where windows are."""


def pooled(folders: Sequence[Path]) -> dict[str, tuple[Plan, list[Start]]]:
    """Design -> a plan of that design, and the starts of all runs that have no other design."""
    pools: dict[str, tuple[Plan, list[Start]]] = {}
    for folder in folders:
        store = Store(folder / "walproof.sqlite")
        for run in store.runs():
            if run.finished_at is None:
                continue
            rounds: dict[int, Start] = defaultdict(list)
            for trial in store.trials(run.id):
                rounds[trial.round].append(trial)
            design = "toggled" if run.plan.toggled else "sliced" if run.plan.sliced else "fresh"
            pools.setdefault(design, (run.plan, []))[1].extend(rounds.values())
        store.close()
    return pools


def put_together(starts: list[Start]) -> list[Trial]:
    """The trials of those starts, as the rounds of one run."""
    return [
        replace(trial, round=at, number=1000 * at + trial.number)
        for at, start in enumerate(starts, 1)
        for trial in start
    ]
