"""What the probes cost: throughput with all of them over throughput with none, interleaved in random order.

The load is bound by the processor (synchronous_commit=off), where an observer takes from the observed.
Goal: less than 2 % together.

    python bench/probe_overhead.py [PAIRS [SECONDS]]
"""

from __future__ import annotations

import dataclasses
import math
import random
import sys
from pathlib import Path

from walproof.analysis import mean_interval
from walproof.cli.progress import TerminalProgress
from walproof.lab.session import ready_to_run
from walproof.lab.study import Overrides, ad_hoc, resolve
from walproof.lab.trial import TrialOrder, TrialRunner
from walproof.postgres.cache import cache_folder


def main() -> None:
    """Run the pairs and print the ratio with its interval."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    study = ad_hoc(
        [{"synchronous_commit": "off"}],
        {"name": "w", "scale": 50, "clients": 50, "threads": 2, "duration": seconds, "warmup": 1},
    )
    observed = resolve(study, Overrides(pg=("embedded",)), folder=Path(cache_folder("work")))
    alone = dataclasses.replace(observed, probes=())
    chance = random.Random(1)
    logs = []
    with TerminalProgress(observed) as progress, ready_to_run(observed, progress) as runner:
        runners = {"with": runner, "without": runner.of_plan(alone)}
        for pair in range(1, pairs + 1):
            order = list(runners)
            chance.shuffle(order)
            tps = {which: _tps(runners[which], 2 * pair + at, pair, observed.installs[0].label)
                   for at, which in enumerate(order)}  # fmt: skip
            logs.append(math.log(tps["with"] / tps["without"]))
            print(f"pair {pair}: with {tps['with']:,.0f}, without {tps['without']:,.0f} tps, "
                  f"ratio {tps['with'] / tps['without']:.3f}", flush=True)  # fmt: skip
    interval = mean_interval(logs)
    assert interval is not None
    ratio, low, high = (math.exp(x) for x in (sum(logs) / len(logs), interval.low, interval.high))
    median = math.exp(sorted(logs)[len(logs) // 2])
    print(f"all probes / none: {ratio:.4f} ({low:.4f} to {high:.4f}, 95 %), median {median:.4f}")


def _tps(runner: TrialRunner, number: int, round_number: int, install: str) -> float:
    trial, _ = runner.run(TrialOrder(number, round_number, install, "w", "synchronous_commit=off"))
    assert trial.reason is None, trial.reason
    return trial.metrics["tps"]


if __name__ == "__main__":
    main()
