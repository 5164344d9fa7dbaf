"""Which share of a run's wall time is counted: inside windows, or inside slices?

The rest is cloning, syncing, starting and stopping servers, the time between slices and reading logs. Goals
on 2 cores: 85 % of windows of 10 s, 80 % of toggled slices, 50 % of slices of servers that take turns.

    python bench/window_share.py    # seven minutes
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from walproof.facts import Trial
from walproof.facts.store import Store

RUNS = {
    "windows of 10 s": ["run", "durability", "--duration", "10s", "--rounds", "1"],
    "toggled": ["compare", "--set", "synchronous_commit=off", "--set", "wal_compression=pglz"],
    "servers that take turns": [
        "compare", "--set", "shared_buffers=32MB", "--set", "full_page_writes=off",
    ],
}  # fmt: skip
"""What is measured -> a command that measures so, with the design's own numbers."""


def main() -> None:
    """Run each command and print its share."""
    for name, command in RUNS.items():
        with tempfile.TemporaryDirectory() as out:
            subprocess.run(
                [sys.executable, "-m", "walproof", *command, "--pg", "embedded", "--out", out],
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            store = Store(Path(out) / "walproof.sqlite")
            run = store.run("last")
            trials = store.trials(run.id)
            store.close()
        inside = sum(map(counted_s, trials))
        apart = sum(trial.ended_at - trial.started_at for trial in trials) - inside
        whole = trials[-1].ended_at - trials[0].started_at
        print(
            f"{name}: {inside / whole:.1%} of {whole:.0f} s is counted, {apart / len(trials):.2f} s outside "
            f"per trial ({len(trials)} trials)"
        )


def counted_s(trial: Trial) -> float:
    """Seconds of the trial's window, or of all its slices."""
    return sum(slice_.length_s for slice_ in trial.slices) if trial.slices else trial.window_s or 0.0


if __name__ == "__main__":
    main()
