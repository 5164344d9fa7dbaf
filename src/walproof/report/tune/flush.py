"""What a faster flush would give, as a table of emulated disks, or why it is not known."""

from __future__ import annotations

from walproof.advise.tune.answer import TuneAnswer
from walproof.analysis.tuning.budget import BudgetClock
from walproof.analysis.tuning.flush import OBJECTIVES, flush_gains
from walproof.analysis.tuning.race import latest
from walproof.analysis.tuning.search import FLUSH_ROUNDS
from walproof.facts.tuning import DEFAULT, NO_EMULATED_DISK, STOPPED, Purpose, TuningFacts
from walproof.facts.tuning_answers import candidate_name
from walproof.report.blocks import Block, Column, Paragraph, Table, text_cells
from walproof.report.numbers import UNKNOWN, ratio
from walproof.units import format_duration

_NOTE = (
    "A flush takes exactly the time that the emulated disk says; everything else is as on this machine. "
    "Above 1x is better."
)


def flush_blocks(facts: TuningFacts, answer: TuneAnswer, device: str | None) -> list[Block]:
    """The table, or the reason. ``device``: emulated disk of the whole tuning; None for the real disk."""
    if facts.plan.objective.metric not in OBJECTIVES:
        return []
    step = latest(facts, Purpose.FLUSH)
    if step is None:
        return [Paragraph(_not_measured(facts, answer), terminal=True)]
    known = {gain.device: gain for gain in flush_gains(facts)}
    rows = [
        (
            device,
            ratio(known[device].ratio, known[device].interval) if device in known else UNKNOWN,
            str(known[device].rounds) if device in known else "failed",
        )
        for device in step.devices
    ]
    against = "this disk" if device is None else device
    columns = (Column("emulated disk"), Column(f"relative to {against}", numeric=True), Column("rounds"))
    title = f"What another flush would give: {candidate_name(step.candidates[0])}"
    return [Table(title, columns, tuple(text_cells(row) for row in rows), _NOTE)]


def _not_measured(facts: TuningFacts, answer: TuneAnswer) -> str:
    refused = next((note for note in facts.notes if note.startswith(NO_EMULATED_DISK)), None)
    if refused is not None:
        return f"What a faster flush would give was not measured. {refused}"
    trial = format_duration(BudgetClock.of(facts).trial_s)
    why = f"the budget had no room for {2 * FLUSH_ROUNDS} more trials of {trial}"
    if answer.conf == DEFAULT and answer.default_broken:
        why = "nothing is advised, and the defaults break a promise"
    elif any(note.startswith(STOPPED) for note in facts.notes):
        why = "the tuning was stopped before"
    return (
        f"What a faster flush would give was not measured: {why}. The same command with --device flush=0.5ms "
        "tunes on an emulated disk."
    )
