"""The recipe of a load for machines: what was measured of every step, and the script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from walproof.advise.loading import LoadAdvice, StepGain, is_too_wide
from walproof.advise.wording import NOT_KNOWN
from walproof.analysis.effect import Effect
from walproof.facts import LoadMethod
from walproof.facts.codec import to_data
from walproof.report.kinds.loading.script import Recipe, load_script, risk_of
from walproof.sentences import say_list


def load_json(
    run: str, advice: LoadAdvice, recipe: Recipe, settings: Sequence[tuple[str, str]], file: str | None
) -> str:
    """Gains are ratios of complete rows/s with a step to those without it, as in the script's comments.

    ``variant`` and ``load`` are the recipe's; ``measured`` is the load that it is made of.
    Raises SqlError as :func:`walproof.report.kinds.loading.script.load_script`.
    """
    variant = advice.variant
    method = variant.conditions_as(LoadMethod)
    left_out = f" without {say_list(advice.left_out)}" if advice.left_out else ""
    data = {
        "run": run,
        "table": recipe.table,
        "postgresql": advice.install,
        "variant": f"{variant.name}{left_out}",
        "durability_class": risk_of(advice, recipe).value,
        "load": _method(replace(method, steps=recipe.steps)),
        "settings": dict(settings),
        "measured": {"variant": variant.name, "load": _method(method)},
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


def _method(method: LoadMethod) -> dict[str, Any]:
    return {key: value for key, value in to_data(method).items() if key != "name"}


def _gain(step: StepGain) -> dict[str, Any]:
    return {"step": step.step, **_ratio(step)}


def _effect(effect: Effect) -> dict[str, Any]:
    return {"variant": effect.variant, **_ratio(effect)}


def _ratio(found: StepGain | Effect) -> dict[str, Any]:
    interval = found.interval
    return {
        "ratio": found.ratio,
        "interval": None if interval is None else [interval.low, interval.high],
        "conclusion": NOT_KNOWN if is_too_wide(found) else found.conclusion.value,
    }
