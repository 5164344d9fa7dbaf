"""``walproof runs``: every run in the store; ``stop`` and ``more`` ask something of a running one."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.errors import SettingError

if TYPE_CHECKING:
    from walproof.facts import RequestKind, Run

app = typer.Typer()

RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="Id of a run, its beginning, a study's name, or last.")
]


@app.callback(invoke_without_command=True)
def runs(
    context: typer.Context,
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    json: options.Json = False,
) -> None:
    """List the stored runs, or ask something of a running one."""
    if context.invoked_subcommand is not None:
        for name in ("out", "store", "json"):
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                raise SettingError(
                    f"--{name} is of the list", hint=f"Write it after {context.invoked_subcommand}."
                )
        return
    _list(out, store, json)


@app.command("stop")
def stop(
    run: RunId,
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    json: options.Json = False,
) -> None:
    """Ask a run to end after its present trial. What was measured is kept and reported."""
    from walproof.facts import RequestKind

    _ask(run, RequestKind.STOP, 0, out, store, json)


@app.command("more")
def more(
    run: RunId,
    rounds: Annotated[int, typer.Argument(metavar="ROUNDS", help="How many.")],
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    json: options.Json = False,
) -> None:
    """Ask a run for more rounds after those of its plan."""
    from walproof.facts import RequestKind

    _ask(run, RequestKind.ROUNDS, rounds, out, store, json)


def _ask(name: str, kind: RequestKind, rounds: int, out: Path, store: str | None, json: bool) -> None:
    from dataclasses import asdict

    from walproof.report.requests import say_request

    opened = options.open_existing_store(out, store)
    try:
        run = opened.run(name)
        made = opened.ask(run.id, kind, rounds)
    finally:
        opened.close()
    if json:
        told = {"run": run.id, **asdict(made), "kind": kind.value}
        sys.stdout.write(json_module.dumps(told, indent=2) + "\n")
    else:
        sys.stdout.write(f"asked of run {run.id}: {say_request(made)}\n")


def _state(run: Run, claimed: Collection[str]) -> str:
    if run.finished_at is None:
        return "running" if run.id in claimed else "interrupted"
    return "finished" if run.stopped is None else "stopped"


def _list(out: Path, store: str | None, json: bool) -> None:
    from walproof.facts import TrialState

    opened = options.open_existing_store(out, store)
    try:
        rows: list[dict[str, str | int]] = []
        found = opened.runs()
        claimed = opened.claimed(run.id for run in found if run.finished_at is None)
        for run in found:
            trials = opened.trials(run.id)
            rows.append(
                {
                    "run": run.id,
                    "started": datetime.fromtimestamp(run.created_at).astimezone().isoformat(" ", "seconds"),
                    "state": _state(run, claimed),
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
