"""``walproof runs``: every run in the store. ``stop`` and ``more`` ask something of a running one; ``copy``
and ``remove`` are of whole runs."""

from __future__ import annotations

import json as json_module
import os
import sys
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.errors import SettingError, StoreError
from walproof.sentences import say_count

if TYPE_CHECKING:
    from walproof.facts import RequestKind, Run
    from walproof.facts.store import Store

app = typer.Typer()

RunId = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id of a run, its beginning, a study's name, or last.",
        autocompletion=options.complete_run,
    ),
]
RunIds = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...",
        help="Ids of runs, their beginnings, studies' names, or last.",
        autocompletion=options.complete_run,
    ),
]


@app.callback(invoke_without_command=True)
def runs(
    context: typer.Context,
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    json: options.Json = False,
) -> None:
    """List the stored runs; stop, extend, copy or remove them."""
    if context.invoked_subcommand is not None:
        for name in ("out", "store", "json"):
            source = context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE":
                raise SettingError(
                    f"--{name} before {context.invoked_subcommand} belongs to the list of runs",
                    hint=f"Write it after {context.invoked_subcommand}.",
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


@app.command("copy")
def copy(
    names: RunIds,
    to: Annotated[
        str,
        typer.Option("--to", metavar="STORE", help="SQLite file, folder of results or postgresql:// URL."),
    ],
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    json: options.Json = False,
) -> None:
    """Copy runs, with all that was measured, to another store."""
    from walproof.facts.store import Store

    source = options.open_existing_store(out, store)
    try:
        found = _named(source, names)
        folder = Path(to)
        is_into_folder = os.path.isdir(folder)  # noqa: PTH112 - Path.is_dir raises OSError for a long URL
        target = Store(folder / "walproof.sqlite" if is_into_folder else to)
        try:
            if target.shown == source.shown:
                raise StoreError("the runs are in that store already", hint="--to names another store.")
            copied = []
            for run in found:
                copied.append((run, source.copy_run(run.id, target)))
                if is_into_folder:
                    _write_page(target, copied[-1][1].id, folder)
        finally:
            target.close()
    finally:
        source.close()
    if json:
        rows = [
            {"run": run.id, "id": there.id, "outcome": there.outcome.value, "trials": there.trials}
            for run, there in copied
        ]
        sys.stdout.write(json_module.dumps({"store": target.shown, "runs": rows}, indent=2) + "\n")
        return
    for run, there in copied:
        named = "" if there.id == run.id else f" as {there.id}"
        sys.stdout.write(f"{run.id}: {there.outcome.value}{named}, {say_count(there.trials, 'trial')}\n")
    sys.stdout.write(f"in {target.shown}\n")


@app.command("remove")
def remove(
    names: RunIds,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them: what was measured is lost.")] = False,
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    json: options.Json = False,
) -> None:
    """Remove runs and their pages."""
    opened = options.open_existing_store(out, store)
    try:
        found = _named(opened, names)
        _require_no_tuning(out, found, is_elsewhere=store is not None)
        extents = opened.extents()
        if not yes:
            raise SettingError(
                "nothing was removed: --yes is missing",
                detail="\n".join(
                    f"{run.id}, begun {_begun(run)}: {say_count(extents[run.id].trials, 'trial')}"
                    for run in found
                ),
                hint='With --yes they are gone for good; "walproof runs copy" keeps them elsewhere.',
            )
        opened.remove_runs([run.id for run in found])
        for run in found:
            if store is None:  # of another store's run the page is elsewhere
                (out / "reports" / f"{run.id}.html").unlink(missing_ok=True)
    finally:
        opened.close()
    if json:
        rows = [{"run": run.id, "trials": extents[run.id].trials} for run in found]
        sys.stdout.write(json_module.dumps(rows, indent=2) + "\n")
        return
    for run in found:
        sys.stdout.write(f"removed {run.id}: {say_count(extents[run.id].trials, 'trial')}\n")


def _write_page(store: Store, name: str, out: Path) -> None:
    """The page of a finished run, beside the store that it came to."""
    from walproof.cli.files import write_file
    from walproof.cli.stored import view_of
    from walproof.report.html import to_html

    run = store.run(name)
    if run.finished_at is not None:
        write_file(out / "reports" / f"{run.id}.html", to_html(view_of(run, store)))


def _named(store: Store, names: Sequence[str]) -> list[Run]:
    """The runs, each once. Raises StoreError."""
    runs = [store.run(name) for name in names]
    return list({run.id: run for run in runs}.values())


def _require_no_tuning(out: Path, runs: Sequence[Run], *, is_elsewhere: bool) -> None:
    """Raise StoreError for a run that is a step of a tuning in the folder of results. ``is_elsewhere``: the
    store is not that folder's, and any step is refused: its tuning may be in another folder."""
    from walproof.facts.tuning_journal import JOURNAL_FILE

    for run in runs:
        if run.command[:2] != ("walproof", "tune"):
            continue
        tuning = run.plan.study.rpartition("-")[0]
        folder = out / "tunings" / tuning
        if (folder / JOURNAL_FILE).exists():
            raise StoreError(
                f"run {run.id} is a step of tuning {tuning}, whose answer rests on it",
                hint=f'Remove the tuning before: its folder is "{folder}".',
            )
        if is_elsewhere:
            raise StoreError(
                f"run {run.id} is a step of tuning {tuning}, which is not in folder {out}",
                hint="Its answer rests on the run: in a store that --store names steps stay.",
            )


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


def _begun(run: Run) -> str:
    return datetime.fromtimestamp(run.created_at).astimezone().isoformat(" ", "seconds")


def _state(run: Run, claimed: Collection[str]) -> str:
    if run.finished_at is None:
        return "running" if run.id in claimed else "interrupted"
    return "finished" if run.stopped is None else "stopped"


def _list(out: Path, store: str | None, json: bool) -> None:
    opened = options.open_existing_store(out, store)
    try:
        rows: list[dict[str, str | float]] = []
        found = opened.runs()
        claimed = opened.claimed(run.id for run in found if run.finished_at is None)
        extents = opened.extents()
        for run in found:
            extent = extents.get(run.id)
            if extent is None:  # removed since
                continue
            rows.append(
                {
                    "run": run.id,
                    "started": _begun(run),
                    "created_at": run.created_at,
                    "state": _state(run, claimed),
                    "trials": extent.trials,
                    "failed": extent.failed,
                    "rounds": extent.rounds,
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
    for row in rows:
        del row["created_at"]  # for programs; people have "started"
    widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in rows[0]}
    titles: dict[str, str | float] = {key: key for key in rows[0]}
    for row in [titles, *rows]:
        cells = (
            f"{value:>{widths[key]}}" if isinstance(value, int) else f"{value:<{widths[key]}}"
            for key, value in row.items()
        )
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
