"""The gate of a plan: the promises that were typed, checked against what the study measures and compares."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.errors import StudyError
from walproof.facts import Design, Gate, Install, Kind, Promise, Variant, Workload
from walproof.facts.gate import OF_SLICED, OF_SLICES, has_gate, judged_metrics, may_be_judged
from walproof.lab.asked import Asked
from walproof.sentences import say_list

_OF_DESIGN = {Design.TOGGLED: OF_SLICES, Design.SLICED: OF_SLICED}


def gate_of(
    asked: Asked,
    kind: Kind,
    installs: Sequence[Install],
    workloads: Sequence[Workload],
    variants: Sequence[Variant],
) -> Gate | None:
    """What the plan has to decide; None if nothing was promised. Raises StudyError."""
    promises, against = asked.overrides.fail_if, asked.study.against
    if not promises:
        return None
    if not has_gate(kind):
        raise StudyError(
            f"a study of {kind.noun} has no gate",
            hint="--fail-if is for studies of throughput and of statements.",
        )
    if asked.overrides.within is not None:
        raise StudyError(
            "--within and --fail-if are two rules for the end of a run",
            hint="Leave out --within: the run ends when the promises are decided, or with --budget.",
        )
    _check_compared(installs, variants, against)
    if against is not None and against not in [workload.name for workload in workloads]:
        raise StudyError(
            f'against names workload "{against}", which the study does not have',
            detail=f"Workloads: {', '.join(workload.name for workload in workloads)}.",
        )
    # Then the baseline for variants with servers of their own, beside toggled ones, is compared with nothing.
    designs = {variant.design for variant in variants if variant.design_reason is not None} or {Design.FRESH}
    for design in designs:
        _check_metrics(promises, kind, _OF_DESIGN.get(design))
    return Gate(promises, against)


def _check_compared(installs: Sequence[Install], variants: Sequence[Variant], against: str | None) -> None:
    """Refuse a gate that compares nothing, or more than one sort of thing: its outcome is one word."""
    found = [
        noun
        for noun, there in (
            ("settings", len(variants) > 1),
            ("installs", len(installs) > 1),
            ("two versions of a workload", against is not None),
        )
        if there
    ]
    if not found:
        raise StudyError(
            "the gate has nothing to compare",
            hint="Name settings (--set), a second install (--pg twice), or the other version of a workload "
            "(--script-against, --setup-against).",
        )
    if len(found) > 1:
        raise StudyError(
            f"the gate compares {say_list(found)} at once",
            detail="It could not be told which of them broke a promise.",
            hint="Compare one; settings that both sides have are --base of compare and --set of run.",
        )


def _check_metrics(promises: Sequence[Promise], kind: Kind, slices: Sequence[str] | None) -> None:
    for promise in promises:
        if not may_be_judged(promise.metric, kind, slices=slices):
            names = judged_metrics(kind, slices=slices)
            raise StudyError(
                f'--fail-if "{promise.text}": {promise.metric} is not measured here',
                detail=f"Measured are {', '.join(names)}.",
                hint="docs/metrics.md says what each of them means."
                + (" --design fresh measures more." if slices is not None else ""),
            )
