"""A stored tuning laid out: the answer that was kept, with the measurements that it rests on."""

from __future__ import annotations

from dataclasses import replace

from walproof.facts.tuning import TuningFacts
from walproof.platforms.registry import platform
from walproof.report.tune.kept import KeptAnswer
from walproof.report.tune.tables import until
from walproof.report.tune.view import TuneView, tune_view


def stored_view(facts: TuningFacts, kept: KeptAnswer) -> TuneView | None:
    """The page as far as the answer has come, which may be some steps fewer than were measured; None if it
    rests on no step, or on steps that the facts do not have."""
    answered = len(kept.asked.runs)
    if not 0 < answered <= len(facts.steps):
        return None
    if answered < len(facts.steps):
        facts = replace(until(facts, facts.steps[answered - 1].number), spent_s=sum(kept.asked.seconds))
    return tune_view(facts, kept.answer, kept.asked, platform(kept.platform))
