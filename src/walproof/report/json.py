"""The machine form: facts, analysis and findings, without layout.

One object; keys stay, new ones may be added:

    format      1
    run         facts of the run: id, plan, command, created_at, environment, ... (``walproof.facts.Run``)
    trials      every trial, failed ones too, with all metrics (``walproof.facts.Trial``)
    analysis    effects with intervals, precision, drift, factors, lock model (``walproof.analysis.Analysis``)
    power_cuts  what survives, counts of images, losses, windows and bounds per variant (``CutSummary``)
    sweeps      of a study of loading: the steps of each sweep, and which points were skipped (``Climb``)
    findings    sentences with kind, subject, trials and metrics (``walproof.advise.Finding``)
    gate        promises, each with outcome, ratio and interval; the looks (``Judgement``); null without one
    answer      question, answers, how_sure, what_would_help, next_commands: as the report says them

Names carry their units; times are Unix seconds; shares are 0 to 1; unknown is null. Per-second series are
in the store, not here.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from walproof.analysis.power_cut import CutSummary, cut_summaries
from walproof.analysis.sweep import Climb, climb, sweeps_of

if TYPE_CHECKING:
    from walproof.report.layout import ReportView

FORMAT = 1


def to_json(view: ReportView) -> str:
    """Indented JSON text, ending in a line feed."""
    document = {
        "format": FORMAT,
        "run": view.run,
        "trials": view.trials,
        "analysis": view.analysis,
        "power_cuts": [_with_bounds(summary) for summary in cut_summaries(view.run.plan, view.trials)],
        "sweeps": [
            _with_skipped(climb(sweep, view.trials, view.run.plan.rounds))
            for sweep in sweeps_of(view.run.plan)
        ],
        "findings": view.findings,
        "gate": view.gate,
        "answer": {
            "question": view.question,
            "answers": view.answers,
            "how_sure": view.how_sure,
            "what_would_help": view.what_would_help,
            "next_commands": view.next_commands,
        },
    }
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _with_skipped(climb: Climb) -> dict[str, object]:
    return {
        **{field.name: getattr(climb, field.name) for field in dataclasses.fields(climb)},
        "skipped": climb.skipped,
    }


def _with_bounds(summary: CutSummary) -> dict[str, object]:
    values = {field.name: getattr(summary, field.name) for field in dataclasses.fields(summary)}
    derived = (
        "survives",
        "failed",
        "failure_rate_most",
        "cut_rate_most",
        "window_ms_median",
        "window_ms_p95",
    )
    return {**values, **{name: getattr(summary, name) for name in derived}}


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON has no NaN
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key.value if isinstance(key, Enum) else key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
