"""The list of subcommands. Each imports what it needs when it runs, so that ``--help`` stays quick."""

from __future__ import annotations

from typing import Annotated

import typer

from walproof.cli import (
    compare,
    disk,
    load_advice,
    pg,
    power_cut,
    recovery,
    replica,
    report,
    run,
    runs,
    show,
    studies,
    wal,
)

app = typer.Typer(
    name="walproof",
    help="Tunes PostgreSQL's write path and proves what each setting costs and what it risks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from walproof import __version__

        typer.echo(f"walproof {__version__}")
        raise typer.Exit


app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("load-advice")(load_advice.load_advice)
app.command("studies")(studies.studies)
app.command("runs")(runs.runs)
app.command("show")(show.show)
app.command("report")(report.report)
app.command("disk")(disk.disk)
app.add_typer(pg.app, name="pg")
app.add_typer(power_cut.app, name="power-cut")
app.add_typer(replica.app, name="replica")
app.add_typer(wal.app, name="wal")
app.add_typer(recovery.app, name="recovery")
