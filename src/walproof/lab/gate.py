"""The gate of a plan: the promises that were typed, checked against what the study measures and compares."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from walproof.errors import StudyError
from walproof.facts import Design, Gate, Install, Kind, Promise, Variant, Workload
from walproof.facts.gate import OF_SLICED, OF_SLICES, has_gate, judged_metrics, may_be_judged
from walproof.facts.metrics import Form, is_declared, metric
from walproof.lab.asked import Asked
from walproof.lab.kind import LabKind
from walproof.sentences import say_list

_OF_DESIGN = {Design.TOGGLED: OF_SLICES, Design.SLICED: OF_SLICED}
_THROUGHPUT = ("tps", "pgbench_tps")
_NAMED = {"script<number>": "script", "<statement>": "statement", "<statement|operation>": "statement"}
"""Breakdown of a metric -> what it names, where a workload says which there are."""


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
    _check_names(promises, workloads)
    return Gate(promises, against)


def held_by_rate(gate: Gate | None, workloads: Sequence[Workload]) -> tuple[str, ...]:
    """A sentence where a gate is about throughput and the load offers a fixed rate: both sides have that."""
    rates = [workload.rate_tps for workload in workloads if workload.rate_tps is not None]
    bases = {promise.metric.partition(".")[0] for promise in (() if gate is None else gate.promises)}
    if not rates or bases.isdisjoint(_THROUGHPUT):
        return ()
    return (
        f"The load offers {rates[0]:g} transactions/s: throughput is that on both sides, as long as they "
        "keep up. A promise on latency_ms_avg shows what a change costs.",
    )


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


def require_known(promises: Sequence[Promise], kind: Kind, half: LabKind[Any]) -> None:
    """Refuse a metric that no design of a study of that kind has. Raises StudyError."""
    # Slices have one that windows have not.
    judged = dict.fromkeys((*judged_metrics(kind), *(OF_SLICES if half.toggles else ())))
    for promise in promises:
        if judged and not is_declared(promise.metric, Form.METRIC):
            raise _not_measured(promise, tuple(judged), "")


def _check_metrics(promises: Sequence[Promise], kind: Kind, slices: Sequence[str] | None) -> None:
    for promise in promises:
        if not may_be_judged(promise.metric, kind, slices=slices):
            more = " --design fresh measures more." if slices is not None else ""
            raise _not_measured(promise, judged_metrics(kind, slices=slices), more)


def _check_names(promises: Sequence[Promise], workloads: Sequence[Workload]) -> None:
    """Refuse a statement or a script that a workload does not have: no trial of it would have the metric."""
    for promise in promises:
        base, _, part = promise.metric.partition(".")
        breakdown = (metric(promise.metric).breakdown or "") if part else ""
        noun = _NAMED.get(breakdown)
        if noun is None:
            continue
        # A statement's name may hold anything, an operation's no bar.
        name = part.rpartition("|")[0] if breakdown.endswith("|operation>") else part
        for workload in workloads:
            names = _names(workload, noun)
            if name in names:
                continue
            near = difflib.get_close_matches(name, names, n=1) or names[:1]
            raise StudyError(
                f'--fail-if "{promise.text}": workload "{workload.name}" has no {noun} "{name}"',
                detail=f"It has {say_list(names)}." if names else "Its load is measured as a whole.",
                hint=f'Name one that it has, such as "{near[0]}".' if near else f"Name {base} alone.",
            )


def _names(workload: Workload, noun: str) -> list[str]:
    """The statements of a workload, or its scripts where there are several, which pgbench counts from 0."""
    if noun == "statement":
        return [statement.name for statement in workload.statements]
    count = len(workload.scripts)
    return [f"script{number}" for number in range(count)] if count > 1 else []


def _not_measured(promise: Promise, names: Sequence[str], more: str) -> StudyError:
    """With all names that are measured, the nearest first."""
    by_base = {re.split(r"[.\[]", name)[0]: name for name in names}
    near = difflib.get_close_matches(promise.metric.partition(".")[0], by_base, n=3)
    # "tps[.script<number>]" is "tps", too.
    optional = {name.partition("[")[0] for name in names if "[" in name}
    listed = [
        name for name in dict.fromkeys((*(by_base[base] for base in near), *names)) if name not in optional
    ]
    return StudyError(
        f'--fail-if "{promise.text}": {promise.metric} is not measured here',
        detail=f"Measured are {', '.join(listed)}.",
        hint=f"docs/metrics.md says what each of them means.{more}",
    )
