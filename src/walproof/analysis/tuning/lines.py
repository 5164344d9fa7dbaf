"""What a tuning has found: what it advises, what each line gives, and what one start is expected to do.

Gains are ratios by which the objective is better: 1.2 is 20 % more throughput, or latency divided by 1.2.
If the chosen conf is not proven to be better than the default, or is beyond the limit of the second metric,
the defaults are best on this machine. Where the default breaks a promise, the best of what keeps all of them
is advised, and its gain may be below 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from statistics import fmean, stdev

from walproof.analysis.interval import LEVEL, Interval, t_quantile
from walproof.analysis.tuning import ablation, race
from walproof.analysis.tuning.proof import (
    against_default,
    choosing_steps,
    compared_with_default,
    is_beyond,
    is_proven,
    ratio,
    second_against_default,
)
from walproof.analysis.tuning.search import FINAL_ROUNDS, TuneSearch
from walproof.analysis.tuning.space import Space
from walproof.analysis.tuning.values import compared_in, objective_values
from walproof.facts.tuning import DEFAULT, STOPPED, Candidate, Judge, Purpose, Step, TuningFacts


class LineVerdict(Enum):
    """What became of a line of the winner."""

    KEPT = "kept"
    """Without it the conf is measurably slower."""
    SAFETY = "kept for safety"
    """Without it a promise is predicted to be broken, or the second metric is beyond its limit."""
    DROPPED = "dropped"
    """Without it the conf is not inferior: the interval of what dropping it costs is within the margin."""
    NOT_PROVEN = "not proven here"
    """These trials cannot tell. ``in_conf`` says whether the advised conf has the line."""


@dataclass(frozen=True, slots=True)
class ConfLine:
    """A line of the winner, and what it was seen to do."""

    setting: str
    value: str
    verdict: LineVerdict
    in_conf: bool
    """Whether the advised conf has the line."""
    gain: float | None
    """Ratio of the reference to the reference without the line; None if not measured."""
    interval: Interval | None
    """Interval of ``gain``, as if it were the only line."""
    p: float | None
    """p value of "the line does nothing", adjusted for all lines of the reference."""
    rounds: tuple[float, ...]
    """The gain in each round that it rests on."""
    alone: float | None
    """Ratio of the default with the line to the default."""
    alone_interval: Interval | None
    reference: Candidate
    """The configuration with the line: the short conf if the final step measured it without the line, else
    the winner."""
    in_winner: float | None
    """Ratio of the winner to the winner without the line; None if not measured."""
    in_winner_interval: Interval | None
    is_limited: bool = False
    """Whether the advised conf has the line because the second metric is beyond its limit without it."""


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """What one start of the advised conf is expected to do, from trials by which nothing was chosen."""

    value: float
    """Geometric mean of the objective, in its unit."""
    value_interval: Interval
    """Prediction interval of one start's value, on a machine as it was during the final step."""
    ratio: float
    """Ratio to the default of the same round; above 1 is better."""
    ratio_interval: Interval
    """Prediction interval of one start's ratio."""
    starts: int
    """Starts that the intervals rest on."""


@dataclass(frozen=True, slots=True)
class TuningOutcome:
    """The end of a tuning, or where it stands."""

    advised: Candidate
    """The short conf; ``DEFAULT`` if the defaults are best."""
    winner: Candidate
    """The configuration before lines were dropped."""
    defaults_are_best: bool
    """Whether nothing was shown to be better than the default, or only what is beyond the second metric's
    limit; where the default breaks a promise, whether nothing else was measured within that limit."""
    is_final: bool
    """Whether the final step was measured; if not, this is the best so far."""
    gain: float | None
    """Ratio of the short conf to the default in the final step, or in the last step that had both."""
    interval: Interval | None
    """Interval of ``gain``."""
    to_winner: float | None
    """Ratio of the short conf to the winner in the final step; None if they are the same, or not measured."""
    to_winner_interval: Interval | None
    lines: tuple[ConfLine, ...]
    """Lines of the winner, in the conf's order."""
    expected: ExpectedStart | None
    to_own: float | None
    """Ratio of what is advised to the user's own in the final step; None without one, if it is the same, the
    short conf or the default, or if it was not measured."""
    to_own_interval: Interval | None
    second: float | None
    """Ratio of the second metric with the short conf to that with the default, as measured."""
    second_interval: Interval | None
    short: Candidate | None = None
    """The winner without the lines that were dropped, advised or not; ``gain`` and ``second`` are its own.
    None in answers that earlier versions kept."""
    rounds: int = 0
    """Rounds that ``gain`` rests on."""


def concluding_facts(facts: TuningFacts) -> TuningFacts:
    """The facts that an answer rests on: without a final step that was stopped before it could say anything.

    What was proven before it holds as it did.
    """
    last = facts.steps[-1] if facts.steps else None
    if last is None or last.purpose is not Purpose.FINAL:
        return facts
    values = objective_values(facts, [last.number])
    whole = [
        number
        for number in values.rounds
        if all((number, candidate) in values.logs for candidate in last.candidates)
    ]
    if len(whole) >= FINAL_ROUNDS[0] or not any(note.startswith(STOPPED) for note in facts.notes):
        return facts
    measured = tuple(trial for trial in facts.measured if trial.step != last.number)
    return replace(facts, steps=facts.steps[:-1], measured=measured)


def outcome(facts: TuningFacts, judge: Judge) -> TuningOutcome:
    """What the facts say so far. ``judge`` says which lines a promise needs."""
    search = TuneSearch(judge)
    recorded = bool(facts.steps)
    winner = search.winner(facts) if recorded else DEFAULT
    short = search.short(facts) if recorded else DEFAULT
    final = race.latest(facts, Purpose.FINAL)
    compared, to_winner, to_own, second = None, None, None, None
    step = compared_with_default(facts, short)
    if step is not None:
        compared = against_default(facts, step)[short]
        if short != winner and winner in step.candidates:
            # The same rounds, and their common spread.
            to_winner = compared_in(facts, step, [(short, winner), (DEFAULT, winner)])[0]
        second = second_against_default(facts, step, short)
    interval = compared.interval() if compared is not None else None
    # What was compared anew and is not ahead is not the best so far, though it may be compared once more.
    is_behind = step is not None and step.purpose is Purpose.CONFIRM and (ratio(compared) or 0.0) <= 1
    is_better = (
        short != DEFAULT
        # While there is more to come the best so far is shown, proven or not; and a default that breaks a
        # promise is no answer, so that the best of the others is, whatever it gives.
        and (
            facts.is_default_ruled_out
            or is_proven(facts, short)
            or (final is None and not is_behind and not _is_concluded(facts, search))
        )
        and not is_beyond(facts, ratio(second))
    )
    advised = short if is_better else DEFAULT
    own = search.own(facts, Space(facts.plan))
    if step is not None and own not in (None, short, DEFAULT) and own in step.candidates:
        of_short, of_default = compared_in(facts, step, [(short, own), (DEFAULT, own)])
        to_own = of_short if is_better else of_default
    return TuningOutcome(
        advised=advised,
        winner=winner,
        defaults_are_best=not is_better,
        is_final=final is not None,
        gain=ratio(compared),
        interval=interval,
        to_winner=ratio(to_winner),
        to_winner_interval=to_winner.interval() if to_winner else None,
        to_own=ratio(to_own),
        to_own_interval=to_own.interval() if to_own else None,
        lines=_lines(facts, search, winner, (short, advised)),
        expected=expected(facts, final, short) if final is not None and is_better else None,
        second=ratio(second),
        second_interval=second.interval() if second else None,
        short=short,
        rounds=len(compared.pairs) if compared is not None else 0,
    )


def expected(facts: TuningFacts, step: Step, candidate: Candidate) -> ExpectedStart | None:
    """Prediction intervals for one more start; None if fewer than two rounds of the step have both confs.

    How much a ratio varies is taken from all confs of the step, unless they contradict that.
    """
    values = objective_values(facts, [step.number])
    logs = [values.logs[number, candidate] for number in values.rounds if (number, candidate) in values.logs]
    others = [other for other in step.candidates if other != DEFAULT]
    compared = compared_in(facts, step, [(other, DEFAULT) for other in others])[others.index(candidate)]
    log_interval, mean, spread = prediction_interval(logs), compared.mean, compared.spread
    if log_interval is None or mean is None or spread is None:
        return None
    count = len(compared.pairs)
    reach = t_quantile(LEVEL, spread.degrees) * math.sqrt(spread.variance * (1 + 1 / count))
    ratio = Interval(mean - reach, mean + reach, LEVEL, "t")
    value = math.exp(fmean(logs))
    if not facts.plan.objective.larger_is_better:
        value, value_interval = 1 / value, log_interval.exp().inverse()
    else:
        value_interval = log_interval.exp()
    return ExpectedStart(value, value_interval, math.exp(mean), ratio.exp(), count)


def prediction_interval(logs: Sequence[float]) -> Interval | None:
    """Interval in which one more value will lie: mean +- t s sqrt(1 + 1/n); None for fewer than two values.

    Unlike an interval of the mean it does not narrow to a point with many rounds: a single start varies as
    much as starts vary (Hahn and Meeker, "Statistical Intervals", 1991, section 4.7).
    """
    if len(logs) < 2:
        return None
    mean = fmean(logs)
    reach = t_quantile(LEVEL, len(logs) - 1) * stdev(logs) * math.sqrt(1 + 1 / len(logs))
    return Interval(mean - reach, mean + reach, LEVEL, "t")


def _lines(
    facts: TuningFacts,
    search: TuneSearch,
    winner: Candidate,
    confs: tuple[Candidate, Candidate],
) -> tuple[ConfLine, ...]:
    """``confs``: the short conf, and what is advised, which is the default where that is best."""
    short, advised = confs
    space = Space(facts.plan)
    first = next((taken for taken in facts.steps if taken.purpose is Purpose.LINES), None)
    final = race.latest(facts, Purpose.FINAL)
    untested = tuple(
        ablation.LineTest(
            name,
            value,
            None,
            None,
            None,
            search.admits(winner) and not search.admits(space.without(winner, name)),
        )
        for name, value in winner.settings
    )
    in_winner = ablation.line_tests(facts, space, first, winner, search.admits) if first else untested
    in_short = ablation.line_tests(facts, space, final, short, search.admits) if final else ()
    last = {(test.setting, test.value): test for test in in_short if test.left_out is not None}
    in_conf = set(advised.settings)
    keeps = race.keeps_second(facts, space, choosing_steps(facts))
    limited = {name for name, _ in short.settings if keeps(short) and not keeps(space.without(short, name))}
    # A line that fell with the one that caps it has another value in the short conf.
    changed = [
        ablation.LineTest(test.setting, test.value, None, None, None, test.is_needed)
        for test in in_short
        if (test.setting, test.value) not in winner.settings
    ]
    return tuple(
        _line(
            test,
            last.get((test.setting, test.value)),
            (winner, short),
            (test.setting, test.value) in in_conf,
            test.setting in limited,
            facts.plan.margin,
        )
        for test in (*in_winner, *changed)
    )


def _line(
    test: ablation.LineTest,
    last: ablation.LineTest | None,
    confs: tuple[Candidate, Candidate],
    in_conf: bool,
    is_limited: bool,
    margin: float,
) -> ConfLine:
    """``is_limited``: whether the second metric is beyond its limit without the line."""
    winner, short = confs
    limits = is_limited and in_conf
    gain, interval = _gain(test)
    # With two chances to be proven each has half of the error.
    measured = [each for each in (test, last) if each is not None and each.left_out is not None]
    if test.is_needed and in_conf:
        verdict = LineVerdict.SAFETY
    elif any(each.is_proven(len(measured)) for each in measured):
        verdict = LineVerdict.KEPT
    elif limits:
        verdict = LineVerdict.SAFETY
    elif not in_conf and interval is not None and interval.inverse().low > 1 - margin:
        verdict = LineVerdict.DROPPED
    else:
        verdict = LineVerdict.NOT_PROVEN
    shown = last or test
    shown_gain, shown_interval = _gain(shown)
    added = test.added or (last.added if last is not None else None)
    return ConfLine(
        test.setting,
        test.value,
        verdict,
        in_conf,
        shown_gain,
        shown_interval,
        shown.p,
        tuple(1 / pair.ratio for pair in shown.left_out.pairs) if shown.left_out else (),
        ratio(added),
        added.interval() if added else None,
        winner if last is None else short,
        gain,
        interval,
        limits,
    )


def _gain(test: ablation.LineTest) -> tuple[float | None, Interval | None]:
    """What the line gives: the inverse of what is left without it."""
    interval = test.left_out.interval() if test.left_out else None
    left = ratio(test.left_out)
    return 1 / left if left else None, interval.inverse() if interval else None


def _is_concluded(facts: TuningFacts, search: TuneSearch) -> bool:
    """Whether no step is to come that compares what is advised with the default.

    A tuning that was stopped on request is not: its answer is the best so far.
    """
    step = search.ask(facts)
    return step is None or step.purpose in (Purpose.CRASH, Purpose.FLUSH)
