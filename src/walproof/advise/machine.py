"""Rules about the whole run: stolen processors, checkpoints that never came, drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from walproof.advise.finding import Finding, FindingKind
from walproof.advise.wording import say_ratio
from walproof.analysis.drift import Steadiness
from walproof.analysis.summary import Analysis
from walproof.facts import Plan, Trial, TrialState
from walproof.facts.metrics import metric
from walproof.sentences import say_list, say_percent

STOLEN = 0.02
"""Mean share of stolen CPU time from which it is worth a sentence."""

# Settings that act only through checkpoints: pacing, distance and flushing of their writes.
_CHECKPOINT_SETTINGS = frozenset(
    {
        "checkpoint_completion_target",
        "checkpoint_flush_after",
        "checkpoint_timeout",
        "max_wal_size",
        "min_wal_size",
    }
)


def stolen_processors(plan: Plan, trials: Sequence[Trial], analysis: Analysis) -> Finding | None:
    """Another machine on the same host took processor time."""
    name = "host_cpu_steal_share"
    seen = {trial.number: trial.metrics[name] for trial in _done(trials) if name in trial.metrics}
    if not seen or fmean(seen.values()) < STOLEN:
        return None
    worst = max(seen, key=lambda number: seen[number])
    sentence = (
        f"steal {say_percent(fmean(seen.values()))} of the CPU time, at most {say_percent(seen[worst])} "
        f"in trial {worst}: another machine took the CPU"
    )
    return _find(FindingKind.STEAL, sentence, seen, {name: fmean(seen.values())})


def no_checkpoint(plan: Plan, trials: Sequence[Trial], analysis: Analysis) -> Finding | None:
    """No window saw a checkpoint, so settings that act at checkpoints had nothing to act on."""
    name = "checkpoint_active_share"
    seen = {
        # A checkpoint that is over within a clock tick has no share, but it has been counted.
        trial.number: trial.metrics[name]
        + sum(count for metric, count in trial.metrics.items() if metric.startswith("checkpoints_"))
        for trial in _done(trials)
        if name in trial.metrics
    }
    if not seen or any(seen.values()):
        return None
    sentence = "no checkpoint fell in any window: a setting that acts at checkpoints cannot show"
    concerned = sorted(_CHECKPOINT_SETTINGS & {name for v in plan.variants for name in v.settings})
    if concerned:
        sentence += f" ({say_list(concerned)} here)"
    return _find(FindingKind.CHECKPOINT, sentence, seen, {name: 0.0})


def steadiness(plan: Plan, trials: Sequence[Trial], analysis: Analysis) -> Finding | None:
    """Whether the machine changed during the run, and how much interleaving helped."""
    drift = analysis.drift
    if drift.steadiness is Steadiness.TOO_FEW or drift.trend is None or drift.lag1_correlation is None:
        return None
    trend = say_ratio(drift.trend, drift.trend_interval)
    match drift.steadiness:
        case Steadiness.STEADY:
            sentence = f"the machine was steady: {trend} from the first to the last trial"
        case Steadiness.UNCLEAR:
            sentence = (
                "trials differ too much to say whether the machine was steady: "
                f"{trend} from the first to the last trial"
            )
        case Steadiness.WANDERING:
            sentence = (
                f"the machine had better and worse spells: trials close in time are alike "
                f"(correlation {drift.lag1_correlation:.2f})"
            )
        case _:
            word = "slower" if drift.steadiness is Steadiness.SLOWING else "faster"
            noun = metric(drift.metric).heading
            sentence = (
                f"the machine became {word} over the run: {noun} {trend} from the first to the last trial"
            )
    metrics = {"trend": drift.trend, "lag1_correlation": drift.lag1_correlation}
    if drift.removed_share is not None:
        metrics["removed_share"] = drift.removed_share
        if drift.removed_share >= 0.01:
            sentence += (
                f"; comparing within rounds removed {say_percent(drift.removed_share)} of the variance"
            )
    return _find(FindingKind.DRIFT, sentence, [point.trial for point in drift.points], metrics)


def _done(trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.state is TrialState.DONE]


def _find(
    kind: FindingKind,
    sentence: str,
    trials: Mapping[int, float] | Sequence[int],
    metrics: Mapping[str, float],
) -> Finding:
    return Finding(kind, None, None, None, None, sentence, tuple(trials), dict(metrics))
