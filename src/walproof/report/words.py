"""Words for a kind of study: for the report's setup, ``--dry-run`` and progress."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from walproof.facts import Kind, Plan, Trial, Variant, Workload
from walproof.sentences import say_count
from walproof.units import format_duration

K = TypeVar("K", bound=Kind)


class KindWords(ABC, Generic[K]):
    """The words of a kind. What most of them have in common is implemented here."""

    kind: type[K]

    @abstractmethod
    def outcome(self, trial: Trial) -> str:
        """The result of a successful trial in a few words, its number right-aligned."""

    def script(self, plan: Plan, workload: Workload) -> str:
        """The load of a workload in a word or two: a script's name, or what takes its place."""
        return workload.builtin or " + ".join(script.name for script in workload.scripts)

    def driven_by(self, plan: Plan) -> str:
        """Who makes the load, and how much of what, in a sentence."""
        return f"Driven by pgbench {plan.driver.version}."

    def conditions(self, variant: Variant) -> dict[str, str]:
        """Conditions of a variant that differ from the default, in the words of a study file."""
        return {}

    def method(self, variant: Variant) -> str | None:
        """How the variant does what others do differently; None if all do the same."""
        return None

    def load_lines(self, plan: Plan) -> list[str]:
        """The load of each trial, as ``--dry-run`` shows it."""
        lines = [f"  driven by pgbench {plan.driver.version}", "", "workloads"]
        return lines + [f"  {self.workload_line(workload, plan)}" for workload in plan.workloads]

    def workload_line(self, workload: Workload, plan: Plan) -> str:
        """A workload of pgbench: script, clients, length."""
        length = (
            "without a pause"
            if plan.toggles_all
            else "in slices"
            if plan.slices_all
            else f"{format_duration(workload.duration_s)}"
            if workload.duration_s is not None
            else f"{workload.transactions} transactions per client"
        )
        parts = [
            f"{workload.name}: pgbench {self.transaction(workload, plan)}",
            say_count(workload.clients, "client"),
            f"{say_count(workload.threads, 'thread')}, {workload.protocol} protocol, {length}",
        ]
        if workload.rate_tps is not None:
            parts.append(f"offered {workload.rate_tps:g} tps")
        if workload.warmup_s:
            parts.append(f"after {format_duration(workload.warmup_s)} of warm-up")
        return ", ".join(parts)

    def transaction(self, workload: Workload, plan: Plan) -> str:
        """What pgbench's sessions do."""
        scripts = " + ".join(f"{script.name}@{script.weight}" for script in workload.scripts)
        return f"{workload.builtin or scripts}, scale {workload.scale}"

    def added_lines(self, plan: Plan) -> list[str]:
        """What comes after each window, as ``--dry-run`` shows it."""
        return []
