"""A run as the list shows it and as a search finds it."""

from __future__ import annotations

from dataclasses import dataclass

from walproof.facts import Run
from walproof.facts.run import Extent
from walproof.web.summary import RunSummary


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run of the list."""

    run: Run
    extent: Extent
    summary: RunSummary | None
    """None until it is made of all that is stored of the run now."""

    @property
    def state(self) -> str:
        """How far the run has come, in words."""
        if self.extent.finished_at is not None:
            return "finished" if self.run.stopped is None else "stopped on request"
        return f"{self.extent.trials} of at most {self.run.trials_most} trials"

    @property
    def machine(self) -> str:
        """Processor and disk of the machine."""
        facts = self.run.environment.facts
        disk = self.run.plan.device or facts.get("disk", "")
        return ", ".join(part for part in (facts.get("cpu", ""), disk) if part)

    @property
    def versions(self) -> str:
        """Versions of PostgreSQL."""
        return ", ".join(dict.fromkeys(install.version for install in self.run.plan.installs))

    def has(self, words: str) -> bool:
        """Whether each of the words is in what the list shows of the run, ignoring case."""
        said = (
            []
            if self.summary is None
            else [sentence for a in self.summary.answers for sentence in a.sentences]
        )
        plan = self.run.plan
        names = [variant.name for variant in plan.variants]
        text = " ".join(
            (self.run.id, plan.study, plan.title, self.machine, self.versions, self.state, *names, *said)
        ).lower()
        return all(word in text for word in words.lower().split())
