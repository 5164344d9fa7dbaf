"""What a report says of a load with an offered rate, and of transactions that failed.

Such a load has the throughput that is offered to it, as long as it can keep up: what settings do shows in its
latency.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from walproof.advise.wording import NOT_KNOWN, is_vague
from walproof.analysis.effect import Conclusion, Effect, effects
from walproof.analysis.offered import LATENCY, Unreached, unreached
from walproof.facts import Cell, Trial
from walproof.report.answer import Answer
from walproof.report.cells import Cells
from walproof.report.numbers import number, percent, ratio

_WORDS = {
    Conclusion.LOWER: "measurably shorter",
    Conclusion.HIGHER: "measurably longer",
    Conclusion.IN_DOUBT: "in doubt, because of so many comparisons",
    Conclusion.NO_DIFFERENCE: "no measurable difference",
    Conclusion.TOO_FEW: "one round only, so nothing is certain",
    Conclusion.SAME: "chance, because nothing that acts differs",
}
_NAMED_MOST = 4
_FAILED_LEAST = 0.001
"""Share of transactions below which failed ones are not named."""


def at_offered_rate(found: Sequence[Answer], cells: Cells, trials: Sequence[Trial]) -> tuple[Answer, ...]:
    """The answers, of latency instead of throughput where a load has a rate."""
    plan = cells.plan
    if all(workload.rate_tps is None for workload in plan.workloads):
        return tuple(found)
    compared = effects(plan, trials, LATENCY)
    answers = []
    for answer, (install, workload) in zip(found, cells.groups(), strict=True):
        own = [effect for effect in compared if (effect.install, effect.workload) == (install, workload)]
        rate = plan.workload(workload).rate_tps
        known = [effect for effect in own if effect.ratio is not None]
        if rate is None:
            answers.append(answer)
            continue
        behind = _behind(cells, install, workload)
        said = list(_missed(cells, behind))
        if not known:
            answers.append(replace(answer, sentences=(*said, *answer.sentences)))
            continue
        if all(missed.cell.variant != plan.baseline for missed in behind):
            of_rate = f"At an offered {rate:g} transactions/s, mean latency relative to {plan.baseline}: "
            said.append(f"{of_rate}{'; '.join(_latencies(known))}.")
        answers.append(replace(answer, sentences=tuple(said)))
    return tuple(answers)


def doubts(cells: Cells, stored: Sequence[Trial]) -> tuple[str, ...]:
    """That transactions failed, of whom most. ``stored``: trials as they are stored, a start of slices
    being one."""
    found = [(share, f"with {_name(cells, cell)}") for cell, share in _failed(cells)]
    starts = [trial.metrics for trial in stored if trial.slices]
    failed = sum(metrics.get("failed_transactions", 0.0) for metrics in starts)
    share = _share(failed, sum(metrics.get("transactions", 0.0) for metrics in starts))
    if share is not None:
        found.append((share, "in the starts of slices, of all their variants together"))
    shares = sorted(found, key=lambda pair: -pair[0])
    if not shares:
        return ()
    named = "; ".join(f"{percent(share)} {where}" for share, where in shares[:_NAMED_MOST])
    more = len(shares) - _NAMED_MOST
    rest = f" and {more} more" if more > 0 else ""
    return (
        f"Transactions failed (deadlocks, serialization failures): {named}{rest}. Throughput and latencies "
        "are those of the others.",
    )


def _behind(cells: Cells, install: str, workload: str) -> list[Unreached]:
    """Variants that did not reach the rate, in the order of the plan."""
    found = []
    for variant in cells.variants():
        cell = Cell(install, workload, variant.name)
        missed = unreached(cells.plan, cells.finished(cell), cell)
        found += [] if missed is None else [missed]
    return found


def _missed(cells: Cells, behind: Sequence[Unreached]) -> Iterator[str]:
    """What it means for latencies that a rate was not reached."""
    if not behind:
        return
    shown = [f"{missed.cell.variant} {number(missed.reached_tps)}" for missed in behind]
    rest = f" and {len(shown) - _NAMED_MOST} more" if len(shown) > _NAMED_MOST else ""
    reached = f"of {behind[0].rate_tps:g} transactions/s, {', '.join(shown[:_NAMED_MOST])}{rest}"
    if any(missed.cell.variant == cells.plan.baseline for missed in behind):
        yield (
            f"THE OFFERED RATE WAS NOT REACHED: {reached}. What is not done waits, so latencies grow with "
            "the length of the window and say nothing of the settings. Offer less."
        )
    else:
        yield (
            f"Not all kept up with the offered rate: {reached}. What is not done waits, so their latencies "
            "grow with the length of the window."
        )


def _latencies(known: Sequence[Effect]) -> Iterator[str]:
    for words in (*_WORDS.values(), NOT_KNOWN):
        own = [effect for effect in known if _words(effect) == words]
        if own:
            named = ", ".join(
                f"{effect.variant} {ratio(effect.ratio, effect.interval)}" for effect in own[:_NAMED_MOST]
            )
            rest = f" and {len(own) - _NAMED_MOST} more" if len(own) > _NAMED_MOST else ""
            yield f"{words}: {named}{rest}"


def _words(effect: Effect) -> str:
    if effect.conclusion is Conclusion.NO_DIFFERENCE and effect.interval and is_vague(effect.interval):
        return NOT_KNOWN
    return _WORDS[effect.conclusion]


def _failed(cells: Cells) -> Iterator[tuple[Cell, float]]:
    """Cells with failed transactions, and their share."""
    for cell in cells.plan.cells:
        failed = sum(cells.values(cell, "failed_transactions"))
        done = sum(cells.values(cell, "transactions"))
        if (share := _share(failed, done)) is not None:
            yield cell, share


def _share(failed: float, done: float) -> float | None:
    """Failed transactions as a share of all; None where they are too few to be named."""
    share = failed / (failed + done) if failed else 0.0
    return share if share >= _FAILED_LEAST else None


def _name(cells: Cells, cell: Cell) -> str:
    words = [cell.variant]
    if len(cells.plan.workloads) > 1:
        words.append(cell.workload)
    if len(cells.plan.installs) > 1:
        words.append(cell.install)
    return ", ".join(words)
