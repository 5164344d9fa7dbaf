"""``walproof runs``: every run in the store."""

from __future__ import annotations

import json as json_module
import sys
from datetime import datetime

from walproof.cli import options


def runs(
    out: options.Out = options.DEFAULT_OUT, store: options.StoreUrl = None, json: options.Json = False
) -> None:
    """List the runs that are stored, oldest first."""
    from walproof.facts import TrialState

    opened = options.open_existing_store(out, store)
    try:
        rows: list[dict[str, str | int]] = []
        for run in opened.runs():
            trials = opened.trials(run.id)
            rows.append(
                {
                    "run": run.id,
                    "started": datetime.fromtimestamp(run.created_at).astimezone().isoformat(" ", "seconds"),
                    "state": "finished" if run.finished_at is not None else "interrupted",
                    "trials": len(trials),
                    "failed": sum(trial.state is TrialState.FAILED for trial in trials),
                    "rounds": max((trial.round for trial in trials), default=0),
                    "postgresql": ", ".join(install.version for install in run.plan.installs),
                }
            )
    finally:
        opened.close()
    if json:
        sys.stdout.write(json_module.dumps(rows, indent=2) + "\n")
        return
    if not rows:
        sys.stdout.write('No runs yet; "walproof run durability --quick" makes one.\n')
        return
    widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in rows[0]}
    titles: dict[str, str | int] = {key: key for key in rows[0]}
    for row in [titles, *rows]:
        cells = (
            f"{value:>{widths[key]}}" if isinstance(value, int) else f"{value:<{widths[key]}}"
            for key, value in row.items()
        )
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
