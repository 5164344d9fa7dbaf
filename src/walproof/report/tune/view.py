"""A tuning laid out for reading: what to set and why, what limits ruled out, the race, the next limit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from walproof.advise.tune.answer import LineCosts, TuneAnswer
from walproof.advise.tune.conclusion import Conclusion
from walproof.advise.tune.crashes import CrashCheck, WalCheck, shows_limits
from walproof.advise.tune.shown_by import ShownBy, shown_by
from walproof.advise.tune.space import NotMoved
from walproof.analysis.hosts import HostStudy
from walproof.analysis.tuning.proof import is_beyond
from walproof.facts.tuning import DEFAULT, STOPPED, RuledOut, TuningFacts
from walproof.facts.tuning_answers import candidate_name
from walproof.platforms.platform import Platform, PlatformTarget
from walproof.report.blocks import Block, Listing, Paragraph, Section
from walproof.report.numbers import percent, ratio
from walproof.report.tune.figures import line_figure, race_blocks
from walproof.report.tune.flush import flush_blocks
from walproof.report.tune.names import gained
from walproof.report.tune.over_hosts import host_sentences, hosts_section
from walproof.report.tune.own import is_own_judged, own_sentence
from walproof.report.tune.pasted import (
    Pasted,
    conf_text,
    kept_sentences,
    pasted,
    pasted_section,
    unproven_text,
    wal_of,
    with_notes,
)
from walproof.report.tune.simulated import simulated_limit, window_sentence
from walproof.report.tune.tables import (
    crash_table,
    line_table,
    not_moved_table,
    prediction_table,
    ruled_out_tables,
    step_table,
)
from walproof.report.tune.unfit import broken_words, longest_s, unfit_sentences
from walproof.report.tune.wal_checked import wal_sentences, wal_tables
from walproof.report.tune.words import CLASS_WORDS, OBJECTIVES, promises_text
from walproof.settings.change import Before
from walproof.settings.risk import other_risks
from walproof.units import format_bytes, format_duration

_NOTABLE_SHARE = 0.1
"""Share of the budget above which unspent time is worth a sentence."""


@dataclass(frozen=True, slots=True)
class TuningContext:
    """What the page needs besides the facts and the answer."""

    name: str
    load: str
    install: str
    version_num: int
    device: str | None
    before: Mapping[str, Before]
    """Settings of the user's conf."""
    not_moved: tuple[NotMoved, ...]
    left_out: tuple[str, ...]
    """Lines of the user's conf that no throw-away server can have."""
    crashes: tuple[CrashCheck, ...]
    limits: tuple[tuple[str, str], ...]
    """(kind, sentence): what limits the advised configuration now."""
    runs: tuple[str | None, ...]
    """Id of each step's run."""
    seconds: tuple[float, ...]
    """Wall time of each step."""
    notes: tuple[str, ...]
    at: float
    """When the last step had ended, Unix time."""
    command: str
    """Command that repeats the tuning."""
    hosts: HostStudy | None = None
    """In a tuning over hosts: the last comparison with the defaults, with hosts as blocks."""
    wal_checks: tuple[WalCheck, ...] = ()
    """Simulated WAL of the advised configuration, compared with a run as long as the recording."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Settings of the user's conf -> what configurations without a line for them have instead."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """Settings that every configuration had, and that the user's conf has not, or not so."""
    broken_as_pasted: tuple[RuledOut, ...] = ()
    """Promises that the user's server would break with the lines that the platform takes, which the answer by
    itself keeps: the others stay as that server has them."""


@dataclass(frozen=True, slots=True)
class TuneView:
    """The page; the terminal and JSON show parts of it."""

    question: str
    dateline: str
    summary: tuple[str, ...]
    asked: TuningContext
    facts: TuningFacts
    answer: TuneAnswer
    pasted: Pasted
    platform: str
    sections: tuple[Section, ...]

    @property
    def unfit(self) -> tuple[str, ...]:
        """Sentences that say why what is advised is not to be used as it is; empty where it may be."""
        asked = self.asked
        return unfit_sentences(self.facts, self.answer, asked.crashes, asked.broken_as_pasted)

    @property
    def conf_text(self) -> str:
        """A conf file with a comment above each line that says what the line is worth."""
        notes = [*self.unfit, *kept_sentences(self.answer, self.asked.kept)]
        return conf_text(self.answer, self.facts, self.pasted, notes)


def tune_view(facts: TuningFacts, answer: TuneAnswer, asked: TuningContext, platform: Platform) -> TuneView:
    """Lay out everything that is shown of a tuning."""
    made = lines_of(facts, answer, asked, platform)
    made = with_notes(made, unfit_sentences(facts, answer, asked.crashes, asked.broken_as_pasted))
    objective = OBJECTIVES[facts.plan.objective.metric]
    parts = [
        f"PostgreSQL {asked.install}",
        f"load {asked.load}",
        *((f"emulated disk {asked.device}",) if asked.device else ()),
        f"{datetime.fromtimestamp(asked.at, UTC):%Y-%m-%d %H:%M} UTC",
        f"seed {facts.plan.seed}",
        f"{format_duration(facts.spent_s)} of {format_duration(facts.plan.budget_s)}",
    ]
    said = summary_of(facts, answer, asked)
    said += kept_sentences(answer, asked.kept)
    said += wal_sentences(answer.conf, asked.wal_checks)
    if asked.hosts is not None:
        is_larger_better = facts.plan.objective.larger_is_better
        said += host_sentences(asked.hosts, answer.conf, larger_is_better=is_larger_better)
    summary = tuple(said)
    return TuneView(
        question=f"Which settings give the best {objective}, and keep what was promised?",
        dateline=" · ".join(parts),
        summary=summary,
        asked=asked,
        facts=facts,
        answer=answer,
        pasted=made,
        platform=platform.name,
        sections=tuple(_sections(facts, answer, asked, pasted_section(made, platform.name), summary)),
    )


def lines_of(facts: TuningFacts, answer: TuneAnswer, asked: TuningContext, platform: Platform) -> Pasted:
    """The lines that make the user's server what was measured, as far as the platform takes them."""
    replaced = asked.replaced if is_own_judged(facts, answer) else {}
    return pasted(answer, replaced, PlatformTarget(asked.version_num, asked.before), platform)


def summary_of(facts: TuningFacts, answer: TuneAnswer, asked: TuningContext) -> list[str]:
    """The answer in sentences. Risks to committed data come first, then why it is not to be used."""
    outcome, crashes = answer.outcome, asked.crashes
    promises = facts.plan.promises
    found = []
    if answer.durability.rank > 0:
        allowed = promises.may_lose
        said = "as was allowed"
        if answer.durability.rank > allowed.rank:
            said = f"MORE THAN WAS PROMISED (a crash {CLASS_WORDS[allowed.value]})"
        found.append(f"A crash {CLASS_WORDS[answer.durability.value]} with what is advised, {said}.")
    found += unfit_sentences(facts, answer, crashes, asked.broken_as_pasted)
    # Standbys, which no throw-away server has.
    found += [f"{risk}." for _, risk in other_risks(answer.conf.conf)]
    objective = OBJECTIVES[facts.plan.objective.metric]
    if answer.why_default is not None:
        found.append(_HEADLINES[answer.conclusion].format(why=answer.why_default))
        if outcome.gain is not None and outcome.winner != DEFAULT:
            found.append(
                f"The best configuration tried, {candidate_name(outcome.short or outcome.winner)}, measured "
                f"{gained(outcome.gain, outcome.interval, outcome.rounds)} as good."
            )
        if answer.conclusion is Conclusion.DEFAULTS and (text := own_sentence(facts, answer)) is not None:
            found.append(text)
    else:
        count = len(answer.conf.settings)
        where = "on fresh servers, with a seed by which nothing was chosen"
        if not outcome.is_final:
            where = "the best so far, not yet compared on servers by which nothing was chosen"
        said = "" if not (open_ := unproven_text(answer)) else f", {open_}"
        gain = gained(outcome.gain, outcome.interval, outcome.rounds)
        worth = f"{objective} {gain} as good as with the defaults ({where})"
        if outcome.gain is None and facts.is_default_ruled_out:
            worth = f"the best {objective} of what keeps the promises, {where}"
        elif outcome.gain is None:
            worth = f"{objective} was not compared with that of the defaults in the same rounds ({where})"
        found.append(f"{count} {'line' if count == 1 else 'lines'}{said}: {worth}.")
        if (text := window_sentence(facts, answer)) is not None:
            found.append(text)
        if (text := own_sentence(facts, answer)) is not None:
            found.append(text)
        if outcome.expected is not None:
            span = outcome.expected.ratio_interval
            found.append(
                f"A single start of it is expected to measure {span.low:.2f}x to {span.high:.2f}x a start of "
                "the defaults."
            )
        if all(line.gain is None for line in outcome.lines):
            found.append("No line was tried by itself: the budget had no room for it; a larger one would.")
        gone = [costs for costs in answer.lines if not costs.line.in_conf]
        if gone:
            found.append(f"Tried and left out: {'; '.join(map(_left_out, gone))}.")
    if (text := _second_sentence(facts, answer)) is not None:
        found.append(text)
    left_s = facts.plan.budget_s - facts.spent_s
    is_exhausted = outcome.winner == DEFAULT and not any(note.startswith(STOPPED) for note in facts.notes)
    if (
        answer.conclusion is Conclusion.DEFAULTS
        and is_exhausted
        and left_s > _NOTABLE_SHARE * facts.plan.budget_s
    ):
        found.append(
            f"{format_duration(left_s)} of the budget is left: there was nothing to confirm, and the race "
            "had had its share, or nothing to propose that was likely to be better."
        )
    found.append(f"Promised: {promises_text(promises)}.")
    if answer.default_broken and answer.conclusion is not Conclusion.NONE_KEEPS:
        broken = broken_words(answer.default_broken)
        is_reference = "" if answer.conf == DEFAULT else ", and are only what it is compared with"
        found.append(f"The defaults themselves would not keep that ({broken}){is_reference}.")
    if answer.own_broken:
        broken = broken_words(answer.own_broken)
        found.append(f"Your own configuration would not keep it ({broken}), and was not run as it is.")
    found += [_crash_sentence(crash) for crash in crashes]
    target_s = promises.recovery_target_s
    away_s = longest_s(answer, crashes)
    if away_s is not None and (target_s is None or away_s <= target_s):
        assert answer.expected_away_s is not None
        found.append(
            f"At that pace its longest time away is {format_duration(away_s)} instead of "
            f"{format_duration(answer.expected_away_s)}"
            + ("." if target_s is None else f": within {format_duration(target_s)}.")
        )
    return found


_HEADLINES: Mapping[Conclusion, str] = {
    Conclusion.DEFAULTS: "The defaults are best on this machine: {why}.",
    Conclusion.UNDECIDED: "Not decided: {why}; nothing is advised.",
    Conclusion.NONE_KEEPS: (
        "No configuration that was looked at keeps the promises, not even the defaults: {why}."
    ),
}
"""The first sentence where nothing is advised."""


def _left_out(costs: LineCosts) -> str:
    """``max_wal_size (dropped)``, and what windows do not show of it."""
    wal, text = wal_of(costs), costs.line.verdict.value
    is_seen = shown_by(costs.line.setting) is ShownBy.WINDOWS
    if not is_seen and wal is not None and wal[0] < wal[1]:
        share = percent(wal[0] / wal[1])
        text += f"; with it WAL is {share} of that without it, as simulated, which windows do not show"
    return f"{costs.line.setting} ({text})"


def _second_sentence(facts: TuningFacts, answer: TuneAnswer) -> str | None:
    """What the second metric was with the best configuration, and whether that is proven to be allowed."""
    outcome, objective = answer.outcome, facts.plan.objective
    if objective.limit is None:
        return None
    if outcome.second is None:
        if answer.conf == DEFAULT:
            return None
        return (
            f"{objective.limit[0]} was NOT MEASURED with what is advised; allowed is {objective.limit_words}."
        )
    interval = outcome.second_interval
    which = "what is advised" if answer.why_default is None else "that configuration"
    text = (
        f"{objective.limit[0]} with {which} is {ratio(outcome.second, interval)} of the defaults'; allowed "
        f"is {objective.limit_words}"
    )
    ends = () if interval is None else (interval.low, interval.high)
    is_proven = ends != () and all(objective.beyond(math.log(end)) <= 0 for end in ends)
    if not is_proven and not is_beyond(facts, outcome.second):
        text += ", and it is not proven to be within that"
    if (simulated := simulated_limit(facts, answer)) is not None:
        text += f"; over whole checkpoint cycles it is {ratio(simulated[0])}, as simulated"
    return f"{text}."


def _crash_sentence(crash: CrashCheck) -> str:
    if crash.measured_s is None:
        where = "" if crash.host is None else f" on {crash.host}"
        return f"A crash of it{where} could not be measured: {crash.failure}."
    assert crash.predicted_s is not None
    assert crash.wal_bytes is not None
    _, middle, high = crash.predicted_s
    relation = "as predicted" if crash.is_within else "LONGER than predicted"
    where = "" if crash.host is None else f"On {crash.host}, killed"
    return (
        f"{where or 'Killed'} {format_bytes(crash.wal_bytes)} of WAL after its redo point, it was back after "
        f"{format_duration(crash.measured_s)}, {relation}: {format_duration(middle)}, "
        f"up to {format_duration(high)}."
    )


def _sections(
    facts: TuningFacts,
    answer: TuneAnswer,
    asked: TuningContext,
    lines: Section | None,
    summary: Sequence[str],
) -> list[Section]:
    blocks: list[Block] = [Paragraph(text, terminal=True) for text in summary]
    if answer.lines:
        blocks.append(line_table(answer))
        if (figure := line_figure(answer, facts)) is not None:
            blocks.append(figure)
    blocks.append(prediction_table(answer))
    found = [Section("answer", "Answer", tuple(blocks))]
    if lines is not None:
        found.append(lines)
    ruled = list(ruled_out_tables(answer))
    never = [unmoved for unmoved in asked.not_moved if unmoved.limit is not None]
    if never:
        ruled.append(not_moved_table(never, "Never in the space", terminal=True))
    limits: list[Block] = [
        Paragraph(
            "Predicted from one recording of the load, without a run; no configuration that breaks a limit "
            "was tried. The tables list configurations that differ from the defaults in one line.",
        ),
        *ruled,
    ]
    if not ruled:
        limits.append(
            Paragraph("Nothing: no single change of the defaults would break a limit.", terminal=True)
        )
    found.append(Section("limits", "What limits ruled out", tuple(limits)))
    race: list[Block] = [step_table(facts, asked.runs, asked.seconds)]
    race += race_blocks(facts, asked.kept)
    found.append(Section("race", "The race", tuple(race)))
    if asked.crashes:
        held = (crash_table(asked.crashes), *wal_tables(asked.wal_checks))
        found.append(Section("crashes", "Predictions held to crashes", held))
    if asked.hosts is not None:
        found.append(hosts_section(asked.hosts))
    now: list[Block] = [Paragraph(f"{_capital(sentence)}.", terminal=True) for _, sentence in asked.limits]
    if not now:
        nothing = "Nothing that was watched is exhausted: no flush, lock, processor or disk stands out."
        if not any(shows_limits(step, answer.conf) for step in facts.steps):
            what = "the defaults" if answer.conf == DEFAULT else "what is advised"
            nothing = f"Not measured: no step ran {what} under load on fresh starts."
        now.append(Paragraph(nothing, terminal=True))
    now += flush_blocks(facts, answer, asked.device)
    found.append(Section("now", "What limits it now", tuple(now)))
    space: list[Block] = []
    if others := [unmoved for unmoved in asked.not_moved if unmoved.limit is None]:
        space.append(not_moved_table(others, "Not moved"))
    space += [Paragraph(text) for text in (*asked.left_out, *asked.notes, *facts.notes)]
    space.append(Listing("The same again", asked.command))
    found.append(Section("space", "What was not moved, and notes", tuple(space)))
    return found


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
