"""What a tuning is for: the options ``--objective`` and ``--no-worse``, and the loads that they suit."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from walproof.advise.tune.shown_by import OF_DISTANCE
from walproof.errors import SettingError, StudyError
from walproof.facts.tuning import LARGER_IS_BETTER, Factor, Objective
from walproof.lab.tune.steps import TIME_AWAY
from walproof.sentences import say_list
from walproof.units import format_duration

if TYPE_CHECKING:
    from walproof.cli.tune import TuneOptions


def warn_of_distance(objective: Objective, factors: Sequence[Factor], window_s: float) -> None:
    """Warn where trials end too soon to show what settings of the checkpoints' distance do."""
    unseen = [factor.setting for factor in factors if factor.setting in OF_DISTANCE]
    if not unseen:
        return
    length = format_duration(window_s)
    do = f"{say_list(unseen)} {'does' if len(unseen) == 1 else 'do'}"
    if TIME_AWAY in objective.metrics:
        sys.stderr.write(
            f"warning: each trial ends in a crash after {length} of load, less than a "
            f"checkpoint cycle: its recovery_s does not show what {do}; "
            "--recovery-target keeps a time away by simulation\n"
        )
    if "wal_bytes_per_txn" in objective.metrics:
        sys.stderr.write(
            f"warning: a window of {length} comes soon after a checkpoint and is shorter than a cycle: its "
            f"wal_bytes_per_txn does not show what {do}; the answer has what is simulated over whole cycles\n"
        )


def objective_of(given: TuneOptions, workload: Mapping[str, object]) -> Objective:
    """The metric to improve, with a warning of a limit that only a gain keeps. Raises SettingError,
    StudyError."""
    is_offered = workload.get("rate") is not None
    asked = _default(is_offered=is_offered) if given.objective is None else given.objective
    for metric in (asked, *([given.no_worse.partition("=")[0]] if given.no_worse else [])):
        if metric not in LARGER_IS_BETTER:
            raise SettingError(
                f'a tuning cannot be for "{metric}"',
                hint=f"An objective is one of {', '.join(LARGER_IS_BETTER)}.",
            )
    if asked == "latency_ms_p99" and not is_offered:
        raise StudyError(
            "latency_ms_p99 needs an offered rate",
            detail="Without one, each session sends its next transaction as soon as the last one is done: a "
            "faster server has more to do, not shorter waits.",
            hint="--rate 800 offers 800 transactions a second.",
        )
    if asked == "tps" and is_offered:
        raise StudyError(
            "tps cannot be improved at an offered rate",
            hint="Use --objective latency_ms_p99, or a load without a rate.",
        )
    limit = None
    if given.no_worse is not None:
        metric, _, text = given.no_worse.partition("=")
        try:
            ratio = float(text.removesuffix("x"))
        except ValueError:
            ratio = 0.0
        if not 0 < ratio < math.inf:
            raise SettingError(
                f'--no-worse is "{given.no_worse}"',
                hint="Write METRIC=RATIO: latency_ms_p99=1.1 or tps=0.95.",
            )
        if metric == asked:
            raise SettingError(
                f"--no-worse is about {metric}, which is the objective",
                hint="Name another metric, or leave --no-worse out: nothing is advised that is not better.",
            )
        limit = (metric, ratio)
    found = Objective(asked, LARGER_IS_BETTER[asked], limit)
    if found.beyond(0.0) > 0:
        sys.stderr.write(f'warning: the defaults themselves break "{given.no_worse}": their ratio is 1\n')
    return found


def _default(*, is_offered: bool) -> str:
    """The objective where none is asked for; what it is at an offered rate is said."""
    if not is_offered:
        return "tps"
    sys.stderr.write("the objective is latency_ms_p99, since throughput is what the offered rate says\n")
    return "latency_ms_p99"
