"""Why what a tuning advises is not to be used as it is: promises that it breaks after all."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.advise.tune.answer import TuneAnswer
from walproof.advise.tune.crashes import CrashCheck
from walproof.facts.tuning import RuledOut, TuningFacts
from walproof.report.numbers import ratio
from walproof.report.tune.own import is_own_better
from walproof.report.tune.simulated import simulated_limit
from walproof.units import format_duration


def unfit_sentences(
    facts: TuningFacts,
    answer: TuneAnswer,
    crashes: Sequence[CrashCheck],
    broken_as_pasted: Sequence[RuledOut] = (),
) -> tuple[str, ...]:
    """Why what is advised is not to be used as it is: at its own speed, by how long its recovery took, or
    beside what its lines leave on the server it breaks a promise. Empty where it may be used."""
    found = []
    if answer.broken:
        speed = "" if answer.broken_as_recorded else "at its own speed, which is above the recorded one, "
        found.append(
            f"DO NOT USE IT AS IT IS: {speed}it would break a promise ({broken_words(answer.broken)}). Keep "
            "a smaller max_wal_size or checkpoint_timeout with --keep."
        )
    if broken_as_pasted:
        found.append(
            "DO NOT USE IT AS IT IS: without the lines that are left out, whose settings stay as your server "
            f"has them, it would break a promise ({broken_words(broken_as_pasted)}). First do what is said "
            "beside each of them."
        )
    if is_own_better(facts, answer):
        compared = ratio(answer.outcome.to_own, answer.outcome.to_own_interval)
        found.append(
            "DO NOT USE IT AS IT IS: your own configuration keeps the promises and is better, and the lines "
            f"would take it out: compared with it this is {compared} as good. Keep what you have."
        )
    objective, second = facts.plan.objective, simulated_limit(facts, answer)
    if objective.limit is not None and second is not None and second[1]:
        found.append(
            f"DO NOT USE IT AS IT IS: simulated over whole checkpoint cycles, {objective.limit[0]} with it "
            f"is {ratio(second[0])} of the defaults'; allowed is {objective.limit_words}. Trials end too "
            "soon after a checkpoint to show it."
        )
    longest, target_s = longest_s(answer, crashes), facts.plan.promises.recovery_target_s
    if longest is not None and target_s is not None and longest > target_s:
        found.append(
            "DO NOT USE IT AS IT IS: after a crash it came back more slowly than predicted. At that pace its "
            f"longest time away is {format_duration(longest)}: MORE THAN THE PROMISED "
            f"{format_duration(target_s)}. Calibrate first (walproof recovery calibrate), and tune again "
            "with --new."
        )
    return tuple(found)


def longest_s(answer: TuneAnswer, crashes: Sequence[CrashCheck]) -> float | None:
    """Longest time away at the pace of the slowest recovery; None where none was slower than predicted."""
    slower = slower_than_predicted(crashes)
    predicted_s = answer.expected_away_s
    return predicted_s * slower if slower > 1 and predicted_s is not None else None


def broken_words(limits: Sequence[RuledOut]) -> str:
    """``recovery target: up to 90 s; WAL disk: 4 GB``."""
    return "; ".join(f"{each.limit.value}: {each.predicted}" for each in limits)


def slower_than_predicted(crashes: Sequence[CrashCheck]) -> float:
    """Time over the middle of the forecast, of the slowest recovery that exceeded its upper end; 1 if none
    did."""
    return max(
        (
            crash.measured_s / crash.predicted_s[1]
            for crash in crashes
            if crash.is_within is False and crash.measured_s is not None and crash.predicted_s is not None
        ),
        default=1.0,
    )
