"""What is pasted after a tuning: lines in the platform's form, and a conf file with the worth of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from walproof.advise.tune.answer import LineCosts, TuneAnswer
from walproof.advise.tune.conclusion import Conclusion
from walproof.analysis.tuning.lines import LineVerdict
from walproof.facts.tuning import DEFAULT, Candidate, TuningFacts
from walproof.platforms.platform import Lines, Platform, PlatformTarget, Refusal
from walproof.report.blocks import Block, Listing, Paragraph, Section
from walproof.report.numbers import ratio
from walproof.report.tune.names import gained, is_confirmed, verdict_words
from walproof.report.tune.words import CLASS_WORDS, OBJECTIVES, promises_text
from walproof.sentences import say_list
from walproof.settings.change import Change
from walproof.settings.conf import quoted
from walproof.units import format_bytes, format_duration

_NOTABLE_WAL = 0.02
"""Relative difference of WAL from which on it is named."""


@dataclass(frozen=True, slots=True)
class Pasted:
    """The changes that make the user's server the advised configuration."""

    changes: tuple[Change, ...]
    """Those that the platform takes."""
    refusals: tuple[Refusal, ...]
    lines: Lines | None
    """None where nothing is left to change."""


def pasted(
    answer: TuneAnswer, replaced: Mapping[str, str], target: PlatformTarget, platform: Platform
) -> Pasted:
    """The lines of the answer, and of the user's own lines those that it was measured without.

    ``replaced``: what every configuration without such a line had instead.
    """
    if answer.conclusion not in (Conclusion.ADVISED, Conclusion.DEFAULTS):
        return Pasted((), (), None)
    conf = answer.conf.conf
    back = {name: value for name, value in replaced.items() if name not in conf}
    changes = [Change(name, value) for name, value in (conf | back).items()]
    refused = [found for change in changes if (found := platform.refuse(change, target)) is not None]
    taken = [change for change in changes if change not in [refusal.change for refusal in refused]]
    lines = platform.write(taken, target) if taken else None
    gone = [change.name for change in taken if change.name in back]
    if lines is not None and not target.before:
        note = "What your server has now is not known (--conf): note SHOW of each first, since to undo takes "
        lines = replace(lines, notes=(*lines.notes, f"{note}the lines away and brings nothing back."))
    if lines is not None and gone:
        what = "what is advised was" if conf else "the defaults were"
        note = f"These lines take out your own {say_list(gone)}, without which {what} measured."
        lines = replace(lines, notes=(*lines.notes, note))
    return Pasted(tuple(taken), tuple(refused), lines)


def with_notes(made: Pasted, notes: Sequence[str]) -> Pasted:
    """The lines, with notes that come before the platform's."""
    if made.lines is None or not notes:
        return made
    return replace(made, lines=replace(made.lines, notes=(*notes, *made.lines.notes)))


def pasted_section(made: Pasted, platform: str) -> Section | None:
    """The lines, what takes them back, and what the platform does not take; None without any."""
    blocks: list[Block] = []
    if made.lines is not None:
        blocks += [Listing(what, command) for what, command in made.lines.commands]
        blocks += [Listing("To apply", made.lines.apply), Listing("To undo", made.lines.undo)]
        blocks += [Paragraph(note, terminal=True) for note in made.lines.notes]
    blocks += [Paragraph(_left_out(refusal), terminal=True) for refusal in made.refusals]
    if made.refusals:
        blocks.append(Paragraph("What was measured has every line.", terminal=True))
    return Section("lines", f"Lines to paste ({platform})", tuple(blocks)) if blocks else None


def _left_out(refusal: Refusal) -> str:
    return f"{refusal.change.name} = {refusal.change.value} is left out: {refusal.reason}."


def unproven_text(answer: TuneAnswer) -> str:
    """``of which commit_delay is not proven by itself``; empty if every line of the conf is proven."""
    lines = [costs.line for costs in answer.lines if costs.line.in_conf]
    open_ = [line.setting for line in lines if line.verdict is LineVerdict.NOT_PROVEN]
    late = [line for line in lines if line.verdict is LineVerdict.KEPT and not is_confirmed(line)]
    if not open_ and not late:
        return ""
    if late:
        shown = [f"{line.setting} is {verdict_words(line).upper()}" for line in late]
        others = [f"{name} is NOT PROVEN by itself" for name in open_]
        return f"of which {', '.join([*shown, *others])}"
    if len(open_) == len(lines):
        return "NOT PROVEN by itself" if len(lines) == 1 else "none of them PROVEN by itself"
    return f"of which {', '.join(open_)} {'is' if len(open_) == 1 else 'are'} NOT PROVEN by itself"


def kept_sentences(answer: TuneAnswer, kept: Mapping[str, str]) -> list[str]:
    """What every configuration had that is not among the lines; the promises hold with that only."""
    missing = [f"{name}={value}" for name, value in kept.items() if name not in answer.conf.conf]
    if not missing or answer.conclusion not in (Conclusion.ADVISED, Conclusion.DEFAULTS):
        return []
    return [
        f"All of this was measured with {say_list(missing)}, and holds where your server has the same: these "
        "are not among the lines."
    ]


def conf_text(answer: TuneAnswer, facts: TuningFacts, made: Pasted, notes: Sequence[str] = ()) -> str:
    """A file for conf.d. Above each line stands what it is worth.

    ``notes``: what has to be read before it is used."""
    objective = OBJECTIVES[facts.plan.objective.metric]
    gain = gained(answer.outcome.gain, answer.outcome.interval, answer.outcome.rounds)
    worth = f"{objective}: {gain} as good as with the defaults"
    if answer.outcome.gain is None and facts.is_default_ruled_out:
        worth = f"{objective}: the best of what keeps the promises; not compared with the defaults"
    elif answer.outcome.gain is None:
        worth = f"{objective}: not compared with the defaults in the same rounds"
    if answer.why_default is not None:
        worth = f"{objective}: the defaults are best; {answer.why_default}"
    if answer.conf != DEFAULT and not answer.outcome.is_final:
        worth += " (the best so far, not yet compared on servers by which nothing was chosen)"
    rows = [f"# {sentence}" for sentence in notes]
    rows += [f"# walproof tune: {promises_text(facts.plan.promises)}", f"# {worth}"]
    if text := unproven_text(answer):
        rows.append(f"# lines: {text}")
    rows += [f"# {_left_out(refusal)}" for refusal in made.refusals]
    known = {
        costs.line.setting: costs
        for costs in answer.lines
        if answer.conf.conf.get(costs.line.setting) == costs.line.value
    }
    for change in made.changes:
        rows.append("")
        if change.name not in answer.conf.conf:
            rows.append("# takes out your own line, without which all of this was measured")
        elif change.name in known:
            rows += [f"# {text}" for text in line_words(known[change.name], answer.outcome.winner)]
        rows.append(f"{change.name} = {quoted(change.value)}")
    return "\n".join(rows) + "\n"


def wal_of(costs: LineCosts) -> tuple[float, float] | None:
    """(WAL per transaction with a line, without it), as simulated; None where they do not differ notably."""
    wal, without = costs.had.wal_bytes_per_txn, costs.without.wal_bytes_per_txn
    if wal is None or without is None or abs(math.log(without / wal)) < _NOTABLE_WAL:
        return None
    return wal, without


def line_words(costs: LineCosts, winner: Candidate) -> list[str]:
    """What a line is worth and what it costs, as sentences."""
    line = costs.line
    gain = (
        "the budget had no room to measure without it"
        if line.gain is None
        else f"{gained(line.gain, line.interval, len(line.rounds))} with it"
    )
    if line.in_winner is not None and (line.reference != winner or line.in_winner != line.gain):
        where = "in the longer winner" if line.reference != winner else "when lines were tested"
        gain += f" ({ratio(line.in_winner, line.in_winner_interval)} {where})"
    verdict = verdict_words(line) if line.verdict is LineVerdict.KEPT else line.verdict.value
    found = [f"{verdict}: {gain}; a crash {CLASS_WORDS[costs.durability.value]}"]
    had, without = costs.had.recovery_s, costs.without.recovery_s
    if had is not None and without is not None and abs(had - without) >= 0.1:
        found.append(f"longest time away {format_duration(had)}, without it {format_duration(without)}")
    if (wal := wal_of(costs)) is not None:
        with_it, without_it = map(format_bytes, wal)
        found.append(f"WAL per transaction {with_it}, without it {without_it} (simulated)")
    memory, less = costs.memory_bytes
    if memory != less:
        found.append(f"memory {format_bytes(memory)}, without it {format_bytes(less)}")
    if costs.breaks:
        found.append(
            "without it: " + "; ".join(f"{each.limit.value} {each.predicted}" for each in costs.breaks)
        )
    if line.is_limited:
        found.append("without it: beyond the limit of --no-worse, as measured or guessed")
    if line.verdict is LineVerdict.NOT_PROVEN and line.gain is not None:
        found.append("these trials cannot tell whether it gives anything")
    return found
