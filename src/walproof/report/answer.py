"""The first lines of a report: what was found, how sure, what would make it surer, what to run next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from walproof.advise.finding import Finding, FindingKind
from walproof.advise.wording import OPEN, is_unknown, is_vague
from walproof.analysis.effect import Conclusion, Effect
from walproof.analysis.summary import Analysis
from walproof.analysis.within import pilot_rounds
from walproof.facts import Cell, Plan, Run, Trial, TrialState
from walproof.facts.metrics import metric
from walproof.report.cells import Cells
from walproof.report.numbers import number, p_value, percent, ratio
from walproof.report.pooling import say_pooling
from walproof.report.slices import carry_over_sentences, place_sentence
from walproof.sentences import say_count
from walproof.settings.durability import DurabilityClass
from walproof.units import format_duration

_NAMED_MOST = 4
_ROUNDS_MOST = 1000
"""More rounds than this are not advised: then the spread itself is the problem."""


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command and what it is for."""

    purpose: str
    command: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer for one workload on one install, one sentence per durability class."""

    title: str
    sentences: tuple[str, ...]


def answers(cells: Cells, analysis: Analysis) -> tuple[Answer, ...]:
    """What to take home: per durability class, the variant that gains most."""
    found = []
    for install, workload in cells.groups():
        effects = [
            effect
            for variant in cells.plan.variants
            if (effect := analysis.effect(install, workload, variant.name)) is not None
        ]
        sentences = _per_class(cells, effects) if effects else _figures(cells, analysis, install, workload)
        found.append(Answer(cells.group_title(install, workload), tuple(sentences)))
    return tuple(found)


def _per_class(cells: Cells, effects: Sequence[Effect]) -> list[str]:
    plan = cells.plan
    same = [effect.variant for effect in effects if effect.conclusion is Conclusion.SAME]
    if len(same) == len(effects):
        return [f"Nothing is compared: {_names(same)} and {plan.baseline} differ in nothing that acts."]
    usable = [e for e in effects if e.ratio is not None and e.conclusion is not Conclusion.SAME]
    if not usable:
        return ["No round has a finished trial of both a variant and the baseline: there is no answer yet."]
    if all(effect.interval is None for effect in usable):
        top = max(usable, key=lambda effect: effect.ratio or 0.0)
        risk = plan.variant(top.variant).durability
        said = f"{top.variant} measured {ratio(top.ratio)} the throughput of {plan.baseline}{_risk(risk)}"
        return [f"One round only, so nothing is certain: {said}."]
    sentences: list[str] = []
    unknown: list[tuple[str, Effect]] = []
    best: Effect | None = None
    for durability in DurabilityClass:
        of_class = [effect for effect in usable if plan.variant(effect.variant).durability is durability]
        in_class = [effect for effect in of_class if effect.interval is not None]
        if singles := [effect for effect in of_class if effect.interval is None]:
            measured = _names([f"{effect.variant} ({ratio(effect.ratio)})" for effect in singles])
            sentences.append(f"One round only, so nothing is certain: {measured}{_risk(durability)}.")
        gains = [effect for effect in in_class if _is_faster(effect, best)]
        if gains:
            best = max(gains, key=lambda effect: effect.ratio or 0.0)
            sentences.append(
                f"{best.variant} gives {ratio(best.ratio, best.interval)} the throughput of {plan.baseline}"
                f"{_risk(durability)}."
            )
        elif doubtful := [effect for effect in in_class if _may_be_faster(effect, best)]:
            most = max(doubtful, key=lambda effect: effect.ratio or 0.0)
            sentences.append(
                f"{most.variant} is in doubt: {ratio(most.ratio, most.interval)} the throughput of "
                f"{plan.baseline}, because {most.comparisons} comparisons were made."
                f"{_risk_sentence(most.variant, durability)}"
            )
        elif in_class:
            is_as_safe = durability.rank <= plan.variant(plan.baseline).durability.rank
            class_words = f"is as safe as {plan.baseline}" if is_as_safe else durability.value
            widest = max(in_class, key=_highest)
            if best is None and _highest(widest) >= OPEN:
                unknown.append((class_words, widest))
            else:
                sentences.append(_no_gain(class_words, widest, best, is_rest=bool(singles)))
    if unknown:
        sentences.insert(0, _not_known(unknown))
    slower = [effect.variant for effect in usable if effect.conclusion is Conclusion.LOWER]
    if slower:
        sentences.append(f"Measurably slower than {plan.baseline}: {_names(slower)}.")
    return sentences


def _no_gain(class_words: str, most: Effect, best: Effect | None, *, is_rest: bool) -> str:
    """That no variant of a class is faster, and how much faster one may be for all that was measured.
    ``is_rest``: another of the class was named, of which nothing is certain."""
    one = best.variant if best and is_rest else "that"
    than = f"clearly faster than {one}" if best else "measurably faster"
    said = f"No {'other ' if is_rest else ''}variant that {class_words} is {than}"
    if best is not None or _highest(most) <= 1:
        return f"{said}."
    return f"{said}; at most {ratio(_highest(most))} fits what was measured ({most.variant})."


def _not_known(classes: Sequence[tuple[str, Effect]]) -> str:
    """One sentence for all classes whose intervals are too wide for an answer."""
    if len(classes) == 1:
        ((class_words, most),) = classes
        return (
            f"Not known yet whether a variant that {class_words} is faster: "
            f"up to {ratio(_highest(most))} fits what was measured ({most.variant})."
        )
    listed = "; ".join(
        f"{ratio(_highest(most))} for {most.variant}, which {words}" for words, most in classes
    )
    return f"Not known yet whether a variant is faster: what was measured leaves room for up to {listed}."


def _highest(effect: Effect) -> float:
    assert effect.interval is not None
    return effect.interval.high


def _is_faster(effect: Effect, best: Effect | None) -> bool:
    """Whether it is faster than the baseline and beyond the interval of the best variant that risks less:
    nobody should take a risk for a difference that may be chance."""
    if effect.conclusion is not Conclusion.HIGHER or effect.interval is None:
        return False
    return best is None or best.interval is None or effect.interval.low > best.interval.high


def _may_be_faster(effect: Effect, best: Effect | None) -> bool:
    """Whether it would be faster, as above, if it were the only comparison."""
    if effect.conclusion is not Conclusion.IN_DOUBT or effect.interval is None:
        return False
    least = 1.0 if best is None or best.interval is None else best.interval.high
    return effect.interval.low > least


def _risk(durability: DurabilityClass) -> str:
    return "" if durability is DurabilityClass.NONE else f", and {durability.value}"


def _risk_sentence(variant: str, durability: DurabilityClass) -> str:
    return "" if durability is DurabilityClass.NONE else f" {variant} {durability.value}."


def _figures(cells: Cells, analysis: Analysis, install: str, workload: str) -> list[str]:
    """The answer without variants to compare: the figure itself, and the install against the first."""
    variant = cells.plan.baseline
    sentences = []
    for effect in analysis.install_effects:
        if effect.cell == Cell(install, workload, variant) and effect.ratio is not None:
            against = f"PostgreSQL {effect.baseline[0]}"
            noun = metric(effect.metric).heading
            measured = f"{ratio(effect.ratio, effect.interval)} the {noun} of {against}"
            if effect.conclusion is Conclusion.NO_DIFFERENCE and effect.interval is not None:
                vague = is_vague(effect.interval)
                said = "Not known yet against" if vague else "No measurable difference from"
                figures = "" if is_unknown(effect.interval) else f": {ratio(effect.ratio, effect.interval)}"
                sentences.append(f"{said} {against}{figures}.")
            elif effect.conclusion is Conclusion.TOO_FEW:
                sentences.append(f"One round only, so nothing is certain: {measured}.")
            elif effect.conclusion is Conclusion.IN_DOUBT:
                sentences.append(f"In doubt: {measured}, because {effect.comparisons} comparisons were made.")
            else:
                sentences.append(f"{measured}.")
    middle = cells.median(Cell(install, workload, variant), "tps")
    if middle is None:
        return [*sentences, "No trial finished: there is no answer yet."]
    count = say_count(len(cells.finished(Cell(install, workload, variant))), "trial")
    return [*sentences, f"{variant}: {number(middle)} transactions/s, median of {count}."]


def how_sure(run: Run, analysis: Analysis, findings: Sequence[Finding]) -> tuple[str, ...]:
    """What the answer rests on, the weightiest doubts first."""
    effects = (*analysis.effects, *analysis.install_effects)
    lines = [_extent(run, analysis)]
    if analysis.failed:
        verb = "is" if analysis.failed == 1 else "are"
        lines.append(
            f"{analysis.failed} of {say_count(analysis.trials, 'trial')} failed and {verb} left out."
        )
    # Of what is chance, nobody needs to know how much.
    widths = [
        (effect.half_width, effect)
        for effect in effects
        if effect.half_width is not None and effect.conclusion is not Conclusion.SAME
    ]
    if widths:
        width, widest = max(widths, key=lambda pair: pair[0])
        subject = (
            widest.variant if len(analysis.install_effects) == 0 else f"{widest.variant} on {widest.install}"
        )
        lines.append(
            f"Intervals are {percent(analysis.level)} intervals of the ratio within {_within(run.plan)}, "
            f"each for itself; the widest reaches {percent(width)} from its ratio "
            f"({subject}, {widest.workload})."
        )
        lines += say_pooling(effects)
    elif any(effect.conclusion is not Conclusion.SAME for effect in effects):
        lines.append("No variant has two usable rounds, so no ratio has an interval.")
    for family, noun in ((analysis.effects, "comparisons"), (analysis.install_effects, "ratios of installs")):
        if doubtful := [effect for effect in family if effect.conclusion is Conclusion.IN_DOUBT]:
            named = _names([f"{e.variant}, {e.workload} (p {p_value(e.p_family)})" for e in doubtful])
            lines.append(
                f"Of {doubtful[0].comparisons} {noun} some look different by chance; counted together "
                f"these stay in doubt: {named}."
            )
    lines += _chance(effects)
    lines += [place_sentence(place, run.plan.place) for place in analysis.places]
    lines += carry_over_sentences(analysis)
    lines += [
        f"{f.sentence[:1].upper()}{f.sentence[1:]}."
        for f in findings
        if f.variant is None and f.kind in (FindingKind.STEAL, FindingKind.DRIFT)
    ]
    return tuple(lines)


def _chance(effects: Sequence[Effect]) -> list[str]:
    """A warning where a difference was seen that cannot be one."""
    seen = [
        f"{effect.variant}, {effect.workload}"
        for effect in effects
        if effect.conclusion is Conclusion.SAME
        and effect.interval is not None
        and not effect.interval.contains(1.0)
    ]
    if not seen:
        return []
    return [
        f"Chance makes differences here that intervals leave out: {_names(seen)}, whose settings act the "
        "same. Others of that size may be chance, too."
    ]


def _within(plan: Plan) -> str:
    if plan.toggles_all:
        return "passes"
    parts = ["starts" if plan.slices_all else "rounds"]
    if plan.slicing is not None and not plan.slices_all:
        parts.append("within starts where servers take turns")
    if plan.toggling is not None:
        parts.append("within passes where settings are toggled")
    return ", or ".join(parts)


def _extent(run: Run, analysis: Analysis) -> str:
    planned = run.trials_most
    done = f"{say_count(analysis.trials, 'trial')} in {say_count(analysis.rounds, 'round')}"
    if run.finished_at is None and analysis.trials < planned:
        whole = f"{planned} trials in {say_count(run.plan.rounds + run.rounds_more, 'round')}"
        return f"The run is not finished: {done} so far, of {whole}."
    if run.stopped is not None and analysis.trials < planned:
        return (
            f"Stopped on request: {done}, of at most {planned} trials. Stopping a run because its figures "
            "look good shows false differences more often than the intervals say."
        )
    if (by_budget := _by_budget(run.plan, analysis)) is not None:
        return f"{done[:1].upper()}{done[1:]}: {by_budget}."
    if run.rounds_more:
        return (
            f"{done[:1].upper()}{done[1:]}, of which {say_count(run.rounds_more, 'round')} were asked for "
            "while it ran."
        )
    return f"{done[:1].upper()}{done[1:]}."


def _by_budget(plan: Plan, analysis: Analysis) -> str | None:
    """That the budget ended the rounds, where nothing else can have; None otherwise."""
    if plan.budget_s is None or plan.gate is not None or analysis.failed == analysis.trials:
        return None
    budget = f"the budget of {format_duration(plan.budget_s)} ended them"
    if plan.half_width is None:
        return budget if analysis.rounds < plan.rounds else None
    pilot = pilot_rounds(plan)
    if analysis.rounds >= pilot:
        return None  # what the width still lacked was said while it ran
    return (
        f"{budget} in the pilot of {pilot}, too early to know every ratio within ± {percent(plan.half_width)}"
    )


def what_would_help(plan: Plan, trials: Sequence[Trial], analysis: Analysis) -> tuple[str, ...]:
    """More rounds for each half-width, with the time they take; before them, what made trials fail."""
    effects = (*analysis.effects, *analysis.install_effects)
    # No round makes chance surer.
    asked = [
        precision
        for effect, precision in zip(effects, analysis.precision, strict=True)
        if effect.conclusion is not Conclusion.SAME
    ]
    if (not asked and not analysis.failed) or not analysis.precision or not analysis.rounds:
        return ()
    round_s = _round_seconds(plan, trials)
    noun = "start" if plan.slices_all else "round"
    unsure = _without_number(effects, noun)
    lines: list[str] = []
    before: Cell | None = None
    for index, target in enumerate(analysis.precision[0].needed):
        known = [(n.more, p.cell) for p in asked if (n := p.needed[index]).more is not None]
        if asked and not known and any(effect.interval is not None for effect in analysis.effects):
            return (f"More {noun}s: the present ones contradict each other.",)
        if not known and analysis.failed:
            reason = next(trial.reason for trial in trials if trial.state is TrialState.FAILED)
            return (f"Mend what made {analysis.failed} of {analysis.trials} trials fail: {reason}.",)
        if not known:
            return (f"A second {noun}: one {noun} says nothing about the spread.",)
        more, most = max((more or 0, cell) for more, cell in known)
        goal = f"Every {'other ' if unsure else ''}ratio within ± {percent(target.half_width)}"
        if more == 0:
            lines.append(f"{goal}: reached")
            break
        if more > _ROUNDS_MOST:
            # The goals come strictest first: one line for the last that is out of reach says it for all.
            advice = "longer windows or a quieter machine would do more"
            lines = [f"{goal}: out of reach ({more} more {noun}s); {advice}"]
            continue
        time = f", about {format_duration(more * round_s)}" if round_s else ""
        needy = f" ({most[2]}, {most[1]} needs most)" if most != before else ""
        lines.append(f"{goal}: {say_count(more, f'more {noun}')}{time}{needy}")
        before = most
    return (*unsure, *lines)


def _without_number(effects: Sequence[Effect], noun: str) -> list[str]:
    """What the ratios lack of which nobody knows how many rounds, or starts, they need."""
    asked = [e for e in effects if e.ratio is not None and e.conclusion is not Conclusion.SAME]
    found = {
        f"A second {noun} of {{}}: one {noun} says nothing about the spread": [
            effect for effect in asked if effect.interval is None
        ],
        f"More {noun}s of {{}}: the present ones contradict each other": [
            effect for effect in asked if effect.toggled is not None and effect.toggled.contradicting
        ],
    }
    return [
        said.format(_names(list(dict.fromkeys(f"{e.variant}, {e.workload}" for e in of_kind))))
        for said, of_kind in found.items()
        if of_kind
    ]


def _round_seconds(plan: Plan, trials: Sequence[Trial]) -> float | None:
    """Mean length of a whole round; None before the first is complete."""
    by_round: dict[int, list[Trial]] = {}
    for trial in trials:
        by_round.setdefault(trial.round, []).append(trial)
    whole = [
        of_round for number, of_round in by_round.items() if len(of_round) == len(plan.round_cells(number))
    ]
    if not whole:
        return None
    return sum(t.ended_at - t.started_at for of_round in whole for t in of_round) / len(whole)


def repeat_command(run: Run) -> str:
    """The command line that repeats, or resumes, the run."""
    words = run.command if run.command[:1] == ("walproof",) else ("walproof", *run.command)
    return shlex.join(words)


def next_commands(run: Run, analysis: Analysis) -> tuple[NextCommand, ...]:
    """What a reader may want to type now."""
    commands = []
    notable = [over.variant for over in analysis.carry_overs if over.is_notable]
    if notable:
        again = f"{repeat_command(run)} --design fresh"
        commands.append(NextCommand(f"measure {_names(notable)} on servers of their own", again))
    if run.finished_at is None:
        commands.append(NextCommand("finish the run", repeat_command(run)))
    # Results that are not in the default folder or store are found by naming it again.
    place: list[str] = []
    for flag in ("--out", "--store"):
        if flag in run.command:
            place += run.command[run.command.index(flag) :][:2]
    commands.append(open_command(run.id, place))
    return tuple(commands)


def open_command(run_id: str, place: Sequence[str]) -> NextCommand:
    """What opens the report in a browser. ``place``: ``--out`` and ``--store``, where they are needed."""
    return NextCommand("open the report", shlex.join(["walproof", "report", run_id, "--open", *place]))


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED_MOST])
    return shown if len(names) <= _NAMED_MOST else f"{shown} and {len(names) - _NAMED_MOST} more"
