"""A tuning as text, for ``--dry-run``: what may move, what is promised, which steps take how much time."""

from __future__ import annotations

import json as json_
import sys
from typing import TYPE_CHECKING

from walproof.advise.tune.shown_by import ShownBy, shown_by
from walproof.analysis.tuning.budget import ENDS
from walproof.analysis.tuning.flush import OBJECTIVES
from walproof.facts.codec import to_data
from walproof.facts.tuning import Purpose
from walproof.facts.tuning_answers import candidate_name
from walproof.lab.tune.steps import TIME_AWAY
from walproof.report.tune.words import promises_text
from walproof.sentences import say_count
from walproof.units import format_bytes, format_duration

if TYPE_CHECKING:
    from walproof.cli.tune import TuneOptions
    from walproof.cli.tuning import Tuning
    from walproof.facts.tuning import Candidate

_WORDS = {
    Purpose.SCREEN: "screening: which settings do anything",
    Purpose.SEARCH: "race of new configurations against the best so far",
    Purpose.CONFIRM: "the best configuration and the defaults on fresh starts",
    Purpose.LINES: "the best configuration without each line, the defaults with each",
    Purpose.FINAL: "the short configuration with and without each line, and defaults, a new seed",
    Purpose.CRASH: "the advised configuration is killed and recovered",
    Purpose.FLUSH: "the advised configuration on emulated disks with other flushes",
}


def print_plan(tuning: Tuning, given: TuneOptions) -> None:
    """Print the plan on stdout."""
    if given.json:
        data = {
            "name": tuning.journal.name, "trial_s": tuning.trial_s, "is_over_hosts": given.ray is not None,
            **to_data(tuning.plan),
        }  # fmt: skip
        sys.stdout.write(json_.dumps(data, indent=2) + "\n")
        return
    sys.stdout.write("\n".join(plan_lines(tuning, given)) + "\n")


def plan_lines(tuning: Tuning, given: TuneOptions) -> list[str]:
    """The plan as lines for people."""
    plan, workload = tuning.plan, tuning.workload
    install = tuning.load.install
    lines = [f"tuning {tuning.journal.name}", "", "PostgreSQL"]
    lines += [f"  {install.label}  {install.bindir} ({install.origin})"]
    clients = say_count(tuning.clients, "client")
    lines += ["", "load", f"  {tuning.load.name}: {workload.get('name')}, {clients}"]
    if workload.get("rate") is not None:
        lines[-1] += f", offered {workload['rate']} tps"
    if tuning.load.device:
        lines.append(f"  on an emulated disk: {tuning.load.device}")
    if given.ray is not None:
        lines += ["", "hosts", *_host_lines(given)]
    lines += ["", "promised", f"  {promises_text(plan.promises)}"]
    better = "more" if plan.objective.larger_is_better else "less"
    lines += ["", "objective", f"  {plan.objective.metric}, {better} is better"]
    if plan.objective.limit is not None:
        lines.append(f"  and {plan.objective.limit[0]} {plan.objective.limit_words}")
    points = 1
    for factor in plan.factors:
        points *= len(factor.choices)
    lines += ["", f"settings that may move ({points:,} configurations)"]
    for factor in plan.factors:
        note = _NOTES[shown_by(factor.setting)]
        lines.append(f"  {factor.setting:<30} {' '.join(_marked(factor.choices, factor.default))}{note}")
    lines += _at_checkpoints(tuning)
    if tuning.space.not_moved:
        lines += ["", "not moved"]
        for unmoved in tuning.space.not_moved:
            value = "" if unmoved.value is None else f"={unmoved.value}"
            limit = "" if unmoved.limit is None else f"{unmoved.limit.value}: "
            lines.append(f"  {unmoved.setting}{value}: {limit}{unmoved.reason}")
    if plan.keep:
        lines += ["", "settings of every configuration"]
        lines += [f"  {name}={value}" for name, value in sorted(plan.keep.items())]
    if plan.starts:
        lines += ["", "tried first"]
        lines += [f"  {candidate_name(start)}{_not_run(tuning, start)}" for start in plan.starts]
    if tuning.conf is not None and tuning.conf.left_out:
        lines += ["", "lines of your conf that a throw-away server is without"]
        lines += [f"  {text}" for text in tuning.conf.left_out]
    lines += [
        "",
        f"steps within {format_duration(plan.budget_s)} (a trial takes about "
        f"{format_duration(tuning.trial_s)})",
    ]
    record = tuning.conductor.record_plan(tuning.journal, plan.seed).workloads[0]
    length = (record.duration_s or 0.0) + record.warmup_s
    lines.append(
        f"  {'':>8}  the load is recorded once, for {format_duration(length)}; limits are judged from that"
    )
    before = 0.0
    for purpose, end in ENDS.items():
        if purpose is Purpose.FLUSH and plan.objective.metric not in OBJECTIVES:
            continue
        share = (end - before) * max(0.0, plan.budget_s - length)
        lines.append(
            f"  {format_duration(share):>8}  {_WORDS[purpose]} (about {int(share / tuning.trial_s)} trials)"
        )
        before = end
    lines += ["", f"memory of this machine: {format_bytes(tuning.bounds.machine.memory_bytes)}; "
              f"free disk: {format_bytes(tuning.bounds.machine.disk_bytes)}; seed {plan.seed}"]  # fmt: skip
    return lines


def _not_run(tuning: Tuning, start: Candidate) -> str:
    """Why a start will not be run, as far as that is known without a recording."""
    found = [tuning.bounds.refusal(name, value) for name, value in start.settings]
    return "".join(
        f"; not run, for {unmoved.setting}={unmoved.value}: {unmoved.reason}"
        for unmoved in found
        if unmoved is not None
    )


_NOTES = {ShownBy.WINDOWS: "", ShownBy.SIMULATION: "  *", ShownBy.NOTHING: "  +"}


def _at_checkpoints(tuning: Tuning) -> list[str]:
    """Notes on settings that act at checkpoints: whether simulated, checked, or shown only by windows."""
    plan = tuning.plan
    kinds = {shown_by(factor.setting) for factor in plan.factors}
    record = tuning.conductor.record_plan(tuning.journal, plan.seed).workloads[0]
    length = (record.duration_s or 0.0) + record.warmup_s
    room = (ENDS[Purpose.CRASH] - ENDS[Purpose.FINAL]) * max(0.0, plan.budget_s - length)
    found = []
    if ShownBy.SIMULATION in kinds:
        check = (
            f"; the WAL of the advised configuration is checked in a run as long as the recording "
            f"({format_duration(length)}), at whose end the server is killed"
            if room >= length + tuning.trial_s
            else f"; checked in a run as long as the recording ({format_duration(length)}) only if earlier "
            "steps leave time for it: its own share of the budget is too small"
        )
        measured = "throughput comes from windows, which have no whole cycle"
        if plan.objective.metric == TIME_AWAY:
            measured = (
                "recovery_s is that of crashes after windows, which have no whole cycle: --recovery-target "
                "keeps a time away by simulation"
            )
        if plan.objective.metric == "wal_bytes_per_txn":
            measured = (
                "wal_bytes_per_txn comes from windows soon after a checkpoint, which have no whole cycle: "
                "the answer also has what is simulated"
            )
        found.append(
            "  * acts at checkpoints: WAL, size of pg_wal and time away are simulated on the recording, over "
            f"whole cycles{check}; {measured}"
        )
    if ShownBy.NOTHING in kinds:
        found.append(
            "  + acts at checkpoints, and no simulation knows it: measured in windows, which show its effect "
            "only if a checkpoint falls into them (--duration longer than a cycle)"
        )
    return found


def _host_lines(given: TuneOptions) -> list[str]:
    which = "every host" if given.hosts is None else f"{given.hosts} hosts"
    return [
        f"  {which} of {given.ray}: each measures every step completely; comparisons stay within a host",
        "  this machine records the load and judges limits, with its own costs of recovery",
        "  the ranges below are this machine's; hosts with less memory or disk narrow them at the start",
    ]


def _marked(choices: tuple[str, ...], default: str) -> list[str]:
    return [f"({choice})" if choice == default else choice for choice in choices]
