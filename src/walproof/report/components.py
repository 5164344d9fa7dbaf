"""What makes ratios vary, and what would make them surer: starts, passes, a quieter machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from walproof.analysis.effect import Effect
from walproof.analysis.summary import Analysis
from walproof.facts import Design, Plan, Trial, TrialState
from walproof.report.numbers import percent, size

_MANY = 1.5
"""Factor above the best number of passes from which on fewer would do."""
_WAITING_CPU_MOST = 0.02


def noise_sentences(plan: Plan, trials: Sequence[Trial], analysis: Analysis) -> list[str]:
    """For each design: what varies from start to start, from slice to slice, or from round to round, and
    which part more measuring would remove."""
    found = []
    for design, cut in ((Design.TOGGLED, plan.toggling), (Design.SLICED, plan.slicing)):
        known = [
            effect
            for effect in (*analysis.effects, *analysis.install_effects)
            if effect.design is design and effect.components is not None
        ]
        if cut is not None and known:
            found.append(_of_slices(design, known, [t for t in trials if t.variant == cut.baseline]))
    fresh = [e for e in analysis.effects if e.design is Design.FRESH and e.spread is not None]
    if fresh:
        found.append(_of_rounds(fresh, analysis))
    return [*found, *_waiting(trials)]


def _of_slices(design: Design, effects: Sequence[Effect], trials: Sequence[Trial]) -> str:
    known = [effect.components for effect in effects if effect.components is not None]
    start, one_slice = (
        math.sqrt(fmean(value**2 for value in values))
        for values in ([c.start for c in known], [c.slice for c in known])
    )
    share = fmean(c.start_share for c in known)
    said = (
        f"Design {design.value}: a ratio varies by {percent(one_slice)} from slice to slice and by "
        f"{percent(start)} more from start to start; correlation of a pass with the next "
        f"{fmean(c.correlation for c in known):.2f}; {percent(share)} of the variance of a start's ratio is "
        "the start's own"
    )
    whole = [trial for trial in trials if trial.state is TrialState.DONE and trial.slices]
    if not whole:
        return f"{said}."
    now = fmean(max(s.pass_number for s in trial.slices) for trial in whole)
    pass_s = fmean(trial.slices[-1].ended_at - trial.slices[0].began_at for trial in whole) / now
    start_s = fmean(trial.ended_at - trial.started_at for trial in whole) - now * pass_s
    wanted = [c.passes_best(max(start_s, 0.1), pass_s) for c in known]
    numbers = [passes for passes in wanted if passes is not None]
    # Where starts do not differ in any ratio, no number of passes is too large.
    best = round(fmean(numbers)) if numbers else None
    if best is None:
        advice = "starts do not differ, so longer ones help most (--passes)"
    elif share > 0.5 and now > _MANY * best:
        advice = f"more starts help most, and {best} passes a start would do (--passes)"
    elif share <= 0.5 and best > _MANY * now:
        advice = f"longer starts help most: about {best} passes (--passes)"
    else:
        advice = "more starts help most" if share > 0.5 else "more starts and more passes help alike"
    return f"{said}; {advice}."


def _of_rounds(effects: Sequence[Effect], analysis: Analysis) -> str:
    spread = math.sqrt(fmean(effect.spread.variance for effect in effects if effect.spread is not None))
    said = (
        f"Design fresh: a ratio varies by {percent(spread)} from round to round, of start and window together"
    )
    drift = analysis.drift
    if drift.removed_share is not None:
        removed = percent(drift.removed_share)
        said += f"; comparing within rounds removed {removed} of the variance, the machine's drift"
    return f"{said}; more rounds help most."


def _waiting(trials: Sequence[Trial]) -> list[str]:
    """What servers did while another was loaded."""
    seen = [t.metrics for t in trials if t.slices and "waiting_cpu_share" in t.metrics]
    if not seen:
        return []
    share = fmean(metrics["waiting_cpu_share"] for metrics in seen)
    most = max(metrics["waiting_cpu_share_max"] for metrics in seen)
    length_s = sum(s.length_s for t in trials if "waiting_cpu_share" in t.metrics for s in t.slices)
    wal = sum(metrics["waiting_wal_bytes"] for metrics in seen) / length_s
    written = sum(metrics["waiting_written_bytes"] for metrics in seen) / length_s
    verdict = (
        f"less than the {percent(_WAITING_CPU_MOST)} that are allowed"
        if share <= _WAITING_CPU_MOST
        else f"more than the {percent(_WAITING_CPU_MOST)} that are allowed (!): --design fresh has one "
        "server at a time"
    )
    return [
        f"Servers that waited took {percent(share)} of a CPU together, {verdict} (the most in a slice: "
        f"{percent(most)}), and wrote {size(wal)} of WAL and {size(written)} to disk in each second of "
        "slices."
    ]
