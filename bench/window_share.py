"""Which share of a run's wall time lies inside measurement windows: study durability with 10 s windows.

The rest is cloning, syncing, starting and stopping servers and reading logs. Goal: at least 85 % on 2 cores.

    python bench/window_share.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from walproof.facts.store import Store


def main() -> None:
    """Run one round and print the share, over all and by workload."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "walproof", "run", "durability", "--pg", "embedded"]
        subprocess.run([*command, "--duration", "10s", "--rounds", "1", "--out", out], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        store = Store(Path(out) / "walproof.sqlite")
        trials = store.trials(store.run("last").id)
        store.close()
    windows, walls = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for trial in trials:
        for key in (trial.workload, "all"):
            windows[key].append(trial.window_s or 0.0)
            walls[key].append(trial.ended_at - trial.started_at)
    for key in windows:
        share = sum(windows[key]) / sum(walls[key])
        apart = (sum(walls[key]) - sum(windows[key])) / len(walls[key])
        print(
            f"{key}: {share:.1%} of {sum(walls[key]):.0f} s inside windows, {apart:.2f} s outside per trial"
        )
    whole = trials[-1].ended_at - trials[0].started_at
    print(f"first trial's start to last trial's end: {sum(windows['all']) / whole:.1%} of {whole:.0f} s")


if __name__ == "__main__":
    main()
