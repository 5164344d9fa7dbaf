"""The recipe of a load for machines: what was measured of every step, and the script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from walproof.advise.loading import LoadAdvice, StepGain
from walproof.analysis.effect import Effect
from walproof.facts import LoadMethod
from walproof.facts.codec import to_data
from walproof.report.kinds.loading.script import Recipe, load_script


def load_json(
    run: str, advice: LoadAdvice, recipe: Recipe, settings: Sequence[tuple[str, str]], file: str | None
) -> str:
    """Gains are ratios of complete rows/s with a step to those without it, as in the script's comments.

    Raises SqlError as :func:`walproof.report.kinds.loading.script.load_script`.
    """
    variant = advice.variant
    method = to_data(variant.conditions_as(LoadMethod))
    data = {
        "run": run,
        "table": recipe.table,
        "postgresql": advice.install,
        "variant": variant.name,
        "durability_class": variant.durability.value,
        "load": {key: value for key, value in method.items() if key != "name"},
        "settings": dict(settings),
        "steps": {
            "kept": [_gain(step) for step in advice.kept],
            "undecided": [_gain(step) for step in advice.undecided],
            "undecided_are_kept": advice.keeps_undecided,
            "dropped": [_gain(step) for step in advice.dropped],
        },
        "instead": [_effect(effect) for effect in advice.instead],
        "plain": [_effect(effect) for effect in advice.plain],
        "script": load_script(advice, recipe, settings, file),
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _gain(step: StepGain) -> dict[str, Any]:
    return {"step": step.step, **_ratio(step)}


def _effect(effect: Effect) -> dict[str, Any]:
    return {"variant": effect.variant, **_ratio(effect)}


def _ratio(found: StepGain | Effect) -> dict[str, Any]:
    interval = found.interval
    return {
        "ratio": found.ratio,
        "interval": None if interval is None else [interval.low, interval.high],
        "conclusion": found.conclusion.value,
    }
