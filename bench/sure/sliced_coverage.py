"""How often a 95 % interval of design sliced holds the truth, by simulation.

Servers differ from start to start; slices are an autoregressive walk with stalls.

    PYTHONPATH=. python bench/sure/sliced_coverage.py [STUDIES]

For each number of starts: the share of single intervals that hold the truth, the share of studies in which
nothing is called different that is not, and the median half-width; and what intervals of groups of passes,
as they are right for one server that is toggled, would hold of the same slices.
"""

from __future__ import annotations

import math
import random
import sys
from dataclasses import replace
from statistics import median

from tests.analysis.slices import start, toggled_plan
from walproof.analysis.effect import Conclusion, effects
from walproof.facts import Design

NAMES = ("default", "same", "same too", "off", "small")
TRUTH = {"off": math.log(1.25), "small": math.log(0.9)}
STARTS = (3, 4, 8, 12)
PASSES = 8
START, SLICE = 0.026, 0.07
"""Standard deviations: of a server's start, and of each step of the walk through slices."""


def main() -> None:
    """Print a line for each number of starts."""
    studies = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    toggled = toggled_plan(*NAMES, passes=PASSES)
    sliced = replace(
        toggled, variants=tuple(replace(variant, design=Design.SLICED) for variant in toggled.variants),
        toggling=None, slicing=toggled.toggling,
    )  # fmt: skip
    rng = random.Random(20261124)
    for starts in STARTS:
        held = {Design.SLICED: 0, Design.TOGGLED: 0}
        quiet, widths = 0, []
        for _ in range(studies):
            trials = [
                start(
                    toggled, number, rng, effects=TRUTH, noise=SLICE,
                    own_effects={name: rng.gauss(0, START) for name in NAMES},
                )
                for number in range(1, starts + 1)
            ]  # fmt: skip
            for plan in (sliced, toggled):
                found = effects(plan, trials)
                for effect in found:
                    assert effect.interval is not None
                    held[effect.design] += effect.interval.contains(math.exp(TRUTH.get(effect.variant, 0.0)))
                if plan is sliced:
                    widths += [effect.half_width or 0.0 for effect in found]
                    same = [effect.conclusion for effect in found if effect.variant not in TRUTH]
                    quiet += not {Conclusion.HIGHER, Conclusion.LOWER} & set(same)
        count = studies * (len(NAMES) - 1)
        print(
            f"{starts:2} starts of {PASSES} passes: held {held[Design.SLICED] / count:.1%} of {count}; "
            f"no false difference in {quiet / studies:.1%} of {studies} studies; median half-width "
            f"{median(widths):.1%}; as if toggled {held[Design.TOGGLED] / count:.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
