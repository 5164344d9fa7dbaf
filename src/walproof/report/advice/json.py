"""Advice as JSON, for machines and for the next ``--since``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from walproof.report.advice.fleet import FleetView
from walproof.report.advice.view import AdviceView, Item

FORMAT = 1


def to_json(view: AdviceView | FleetView) -> str:
    """Keys as the types name them; figures in the units that they name.

    ``lines_notes``: what to know before applying the lines, such as a restart that they need. ``servers``, of
    several: the name of each, and what there is of one alone, or the error.
    """
    data = _of_several(view) if isinstance(view, FleetView) else _of_one(view)
    return json.dumps({"format": FORMAT, **data}, indent=2, ensure_ascii=False) + "\n"


def _of_several(view: FleetView) -> dict[str, Any]:
    servers = [
        {
            "name": member.name,
            "error": member.error,
            "detail": member.detail,
            "advice": None if member.view is None else _of_one(member.view),
        }
        for member in view.members
    ]
    drift = [{"name": drift.name, "values": dict(drift.values)} for drift in view.drift]
    return {"dateline": view.dateline, "summary": view.summary, "servers": servers, "drift": drift}


def _of_one(view: AdviceView) -> dict[str, Any]:
    return {
        "dateline": view.dateline,
        "summary": view.summary,
        "platform": view.platform,
        "platform_reason": view.platform_reason or None,
        "since": list(view.since),
        "advice": [_item(item) for item in view.items],
        "curve": view.curve_points,
        "apply": view.all_lines.apply if view.all_lines else None,
        "undo": view.all_lines.undo if view.all_lines else None,
        "lines_notes": list(view.all_lines.told) if view.all_lines else [],
        "fine": [asdict(rule) for rule in view.fine],
        "unseen": [asdict(rule) for rule in view.unseen],
        "absent": [asdict(rule) for rule in view.absent],
        "notes": list(view.notes),
    }


def _item(item: Item) -> dict[str, Any]:
    advice = item.advice
    return {
        "rule": advice.rule,
        "weight": advice.weight.value,
        "title": advice.title,
        "evidence": list(advice.evidence),
        "changes": [asdict(change) for change in advice.changes],
        "steps": list(advice.steps),
        "figures": [asdict(figure) for figure in advice.figures],
        "costs": list(advice.costs),
        "durability_class": advice.durability.value,
        "sure": advice.sure.value,
        "surer": item.surer,
        "unknown": list(advice.unknown),
        "context": item.context,
        "apply": item.lines.apply if item.lines else None,
        "undo": item.lines.undo if item.lines else None,
        "lines_notes": list(item.lines.told) if item.lines else [],
        "refused": [
            {
                "name": refusal.change.name,
                "value": refusal.change.value,
                "reason": refusal.reason,
                "source": refusal.source,
            }
            for refusal in item.refusals
        ],
    }
