"""Tunings in the folder of results: the race while it goes on, and the report so far.

The journal says which steps were asked for, the store what they measured, and the answer kept beside the
journal what was predicted. All three are read again when one of them has changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from walproof.advise.tune.standing import say_standing, standing
from walproof.errors import WalproofError
from walproof.facts.tuning import TuningFacts
from walproof.facts.tuning_journal import JOURNAL_FILE, Journal, JournalFile
from walproof.report.blocks import Block, Paragraph, Section
from walproof.report.tune.figures import race_blocks
from walproof.report.tune.kept import ANSWER_FILE, kept_answer
from walproof.report.tune.stored import stored_view
from walproof.report.tune.tables import standing_table, step_table
from walproof.report.tune.words import OBJECTIVES, promises_text
from walproof.sentences import say_count
from walproof.units import format_duration
from walproof.web.listed import ListedRun
from walproof.web.pages import page, templates
from walproof.web.shelf import Shelf

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route


@dataclass(frozen=True, slots=True)
class ListedTuning:
    """A tuning of the folder, or the reason why it cannot be read."""

    folder: Path
    changed_at: float
    journal: Journal | None
    problem: str = ""

    @property
    def state(self) -> str:
        """How far the tuning has come, in words."""
        assert self.journal is not None
        spent = f"{format_duration(self.journal.spent_s)} of {format_duration(self.journal.plan.budget_s)}"
        steps = len([step for step in self.journal.steps if step.finished])
        done = "finished" if self.journal.finished else "not finished"
        return f"{done}: {say_count(steps, 'step')}, {spent}"

    @property
    def question(self) -> str:
        """The question that the tuning answers."""
        assert self.journal is not None
        plan = self.journal.plan
        return f"Best {OBJECTIVES[plan.objective.metric]}, and {promises_text(plan.promises)}"


@dataclass(frozen=True, slots=True)
class TuningCourse:
    """A tuning as it is now."""

    tuning: ListedTuning
    standing: str
    running: ListedRun | None
    """Run of its present step."""
    present: str
    """What it is doing, in words; empty if it has finished."""
    blocks: tuple[Block, ...]
    """The race, while it is run."""
    sections: tuple[Section, ...]
    """The report, as far as it has come."""
    answered: int
    """Number of steps that the report covers."""


class Tunings:
    """The tunings of a folder."""

    def __init__(self, top: Path, shelf: Shelf) -> None:
        self._top = top
        self._shelf = shelf
        self._kept: dict[str, tuple[object, TuningCourse]] = {}
        """The course of the tuning that was last asked for, by name."""

    def listed(self) -> list[ListedTuning]:
        """All tunings, the latest change first. Links are not followed."""
        found = []
        try:
            with os.scandir(self._top) as entries:
                folders = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return []
        for folder in folders:
            try:
                changed_at = (folder / JOURNAL_FILE).stat().st_mtime
                journal = JournalFile(folder).read()
            except OSError:
                continue
            except WalproofError as error:
                found.append(ListedTuning(folder, changed_at, None, error.message))
                continue
            found.append(ListedTuning(folder, changed_at, journal))
        return sorted(found, key=lambda tuning: -tuning.changed_at)

    def course(self, name: str) -> TuningCourse | None:
        """The tuning of that name as it is now; None if there is none. Raises StoreError."""
        tuning = next((tuning for tuning in self.listed() if tuning.folder.name == name), None)
        if tuning is None or tuning.journal is None:
            return None
        told = self._shelf.tuning(tuning.journal)
        if told is None:
            return None
        facts, running = told
        answer = tuning.folder / ANSWER_FILE
        extent = None if running is None else (running.run.id, running.extent, running.run.requests)
        key = (tuning.changed_at, answer.stat().st_mtime if answer.exists() else 0.0, extent)
        # Another request may put the course of another tuning there at any time.
        kept = self._kept.get(name)
        if kept is None or kept[0] != key:
            kept = (key, _course(tuning, tuning.journal, facts, running))
            self._kept = {name: kept}
        return kept[1]


def _course(
    tuning: ListedTuning, journal: Journal, facts: TuningFacts, running: ListedRun | None
) -> TuningCourse:
    blocks: list[Block] = []
    sections: tuple[Section, ...] = ()
    kept = kept_answer(tuning.folder)
    answered = 0 if kept is None else len(kept.asked.runs)
    view = None if kept is None else stored_view(facts, kept)
    if view is not None:
        sections = view.sections
    if not journal.finished and facts.steps:
        taken = [step for step in journal.steps if step.finished]
        if (table := standing_table(facts)) is not None:
            blocks.append(table)
        blocks += race_blocks(facts, None if kept is None else kept.asked.kept)
        blocks.append(step_table(facts, [step.run for step in taken], [step.seconds for step in taken]))
        sections = tuple(_so_far(sections))
    pending = journal.pending
    present = ""
    if pending is not None and not journal.finished:
        present = f"Step {pending.step.number}: {pending.step.purpose.value}"
        if pending.step.why:
            present += f". {pending.step.why[:1].upper()}{pending.step.why[1:]}"
    said = say_standing(standing(facts), facts.plan.objective.metric) if facts.steps else ""
    return TuningCourse(tuning, said, running, present, tuple(blocks), sections, answered)


def _so_far(sections: Sequence[Section]) -> Iterator[Section]:
    """Sections for an unfinished tuning: without final sentences and the race, which is shown above."""
    for section in sections:
        if section.id == "answer":
            blocks = tuple(block for block in section.blocks if not isinstance(block, Paragraph))
            yield Section(section.id, "Lines and predictions", blocks)
        elif section.id in ("limits", "crashes"):
            yield section


def tuning_routes(tunings: Tunings, shown: Mapping[str, Any]) -> list[Route]:
    """Routes below /tunings."""
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    def tuning_list(_request: Request) -> Response:
        return page("tunings.html.j2", **shown, tunings=tunings.listed())

    def tuning_page(request: Request) -> Response:
        found = tunings.course(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return page("tuning.html.j2", **shown, found=found)

    def progress(request: Request) -> Response:
        found = tunings.course(request.path_params["name"])
        if found is None or found.tuning.journal is None:
            raise HTTPException(404)
        text = templates().get_template("tuning_body.html.j2").render(found=found)
        return JSONResponse({"html": text, "finished": found.tuning.journal.finished})

    return [
        Route("/tunings", tuning_list),
        Route("/tunings/{name}", tuning_page),
        Route("/tunings/{name}/progress.json", progress),
    ]
