"""A small study, what a lab has stored of it, and what it left behind: for tests that disturb it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from walproof.facts.store import Store
from walproof.postgres.cache import cache_path

CELLS, ROUNDS = 3, 2
"""A round has a trial of the default and of fsync=off, and a start in which synchronous_commit is toggled."""
COMMAND = (
    "compare", "--set", "fsync=off", "--set", "synchronous_commit=off", "--pg", "embedded",
    "--scale", "1", "--clients", "4", "--duration", "1", "--passes", "2", "--rounds", str(ROUNDS),
)  # fmt: skip
EXPECTED = sorted(
    (round_, variant)
    for round_ in range(1, ROUNDS + 1)
    for variant in ("default", "fsync=off", "default, toggled")
)
"""Round and variant of every trial."""
SEED = int(os.environ.get("WALPROOF_TEST_SEED", "20261120"))

Stored = tuple[int, int, str, float]
"""Number, round, variant, transactions a second (0 of a trial that failed)."""


def stored(folder: Path) -> list[Stored]:
    """Trials of the first run."""
    path = folder / "walproof-out" / "walproof.sqlite"
    if not path.exists():
        return []
    store = Store(path)
    try:
        trials = [trial for run in store.runs()[:1] for trial in store.trials(run.id)]
    finally:
        store.close()
    return [(t.number, t.round, t.variant, t.metrics.get("tps", 0.0)) for t in trials]


def workspaces() -> list[Path]:
    """Folders of the workspaces in the present cache."""
    return [path for path in (cache_path() / "work" / "running").glob("walproof-*") if path.is_dir()]


def processes() -> list[tuple[int, str]]:
    """Processes that name one of them, with their command lines."""
    tokens = {path.name for path in workspaces()}
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if any(token in words for token in tokens):
                found.append((int(entry.name), words))
    return found


def wait_clean(seconds: float) -> list[str]:
    """Processes and folders of any workspace of the cache that are left after that time at most."""
    deadline = time.monotonic() + seconds
    while (
        left := [str(workspace) for workspace in (*workspaces(), *processes())]
    ) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
