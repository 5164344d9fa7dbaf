"""Predictions compared with real crashes and runs, and what limits the advised configuration now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from walproof.advise.finding import FindingKind
from walproof.advise.tune.judge import RecordedJudge
from walproof.advise.verdict import verdicts
from walproof.analysis.summary import analyse
from walproof.facts import Plan, Trial, TrialState
from walproof.facts.tuning import Candidate, Purpose, Step

_LIMITS = (
    FindingKind.FLUSH, FindingKind.LOCK, FindingKind.CPU, FindingKind.OTHERS, FindingKind.DISK,
    FindingKind.IDLE, FindingKind.WAIT,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CrashCheck:
    """A crash of the advised configuration, as measured and as predicted."""

    trial: int
    wal_bytes: float | None
    """WAL from the redo point to the crash."""
    measured_s: float | None
    """Seconds until connections were accepted; None if that was not measured."""
    predicted_s: tuple[float, float, float] | None
    """(low, middle, high) seconds predicted for that distance."""
    failure: str | None
    host: str | None = None
    """Host of the crash, in a tuning over hosts."""

    @property
    def is_within(self) -> bool | None:
        """Whether the time is within the predicted upper end."""
        if self.measured_s is None or self.predicted_s is None:
            return None
        return self.measured_s <= self.predicted_s[2]


def crash_checks(
    candidate: Candidate, trials: Sequence[Trial], judge: RecordedJudge, host: str | None = None
) -> tuple[CrashCheck, ...]:
    """The crashes of a step, each with the prediction for its distance."""
    found = []
    for trial in trials:
        wal_bytes, seconds = trial.metrics.get("recovery_wal_bytes"), trial.metrics.get("recovery_s")
        predicted = None if wal_bytes is None else judge.distance_seconds(candidate, wal_bytes)
        failure = trial.reason if seconds is None else None
        if seconds is None and failure is None:
            failure = "; ".join(trial.warnings) or "the server's log does not say how long it took"
        found.append(CrashCheck(trial.number, wal_bytes, seconds, predicted, failure, host))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class WalCheck:
    """WAL of a run as long as the recording, compared with the simulated WAL."""

    predicted: float
    """Simulated WAL per transaction, as a ratio to the recorded."""
    measured: float
    transactions: float
    """Transactions of the run, as a ratio to those recorded; far from 1, the two are not comparable."""
    checkpoints: int | None
    """Checkpoints that began in the run's window; None if they were not counted."""
    host: str | None = None

    @property
    def off(self) -> float:
        """Ratio of measured to predicted WAL."""
        return self.measured / self.predicted


def wal_checks(
    step: Step,
    trials: Sequence[Trial],
    judge: RecordedJudge,
    recorded: Mapping[str, float],
    host: str | None = None,
) -> tuple[WalCheck, ...]:
    """The WAL checks of a crash step, if it ran as long as the recording.

    ``recorded``: metrics of the recording.
    """
    predicted = judge.recorded_ratio(step.candidates[0]) if step.as_recorded else None
    names = ("wal_bytes_per_txn", "transactions")
    if predicted is None or not all(recorded.get(name) for name in names):
        return ()
    found = []
    for trial in trials:
        per_txn, transactions = (trial.metrics.get(name) for name in names)
        if per_txn is None or transactions is None:
            continue
        begun = [
            trial.metrics[name]
            for name in ("checkpoints_timed", "checkpoints_requested")
            if name in trial.metrics
        ]
        found.append(
            WalCheck(
                predicted,
                per_txn / recorded["wal_bytes_per_txn"],
                transactions / recorded["transactions"],
                round(sum(begun)) if begun else None,
                host,
            )
        )
    return tuple(found)


def shows_limits(step: Step, conf: Candidate) -> bool:
    """Whether the step's trials show what limits the configuration: load on fresh starts, without a crash."""
    others = (Purpose.CRASH, Purpose.RECORD, Purpose.FLUSH)
    return step.purpose not in others and step.design == "fresh" and conf in step.candidates


def limits_now(plan: Plan, trials: Sequence[Trial], variant: str) -> tuple[tuple[str, str], ...]:
    """(kind, sentence) of everything that limits the variant: flush, lock, CPU, disk or client."""
    done = [trial for trial in trials if trial.state is TrialState.DONE]
    if not done:
        return ()
    found = verdicts(plan, trials, analyse(plan, trials))
    return tuple(
        (finding.kind.value, finding.sentence)
        for finding in found
        if finding.variant == variant and finding.kind in _LIMITS
    )
