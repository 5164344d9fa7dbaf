"""``walproof load-advice``: the recipe for loading somebody's own table, measured on a clone of it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options
from walproof.errors import StudyError
from walproof.settings.durability import DurabilityClass

if TYPE_CHECKING:
    from walproof.facts import Install, Run
    from walproof.facts.store import Store
    from walproof.workload.loading.table import Table

_ROUNDS = 5
_CLASSES = {
    "nothing": DurabilityClass.NONE,
    "commits": DurabilityClass.LAST_COMMITS,
    "table": DurabilityClass.TABLE,
    "cluster": DurabilityClass.CORRUPT,
}


def load_advice(
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="FILE.sql[:NAME]|DSN:NAME",
            help="The table: SQL that makes it, or where it is (read by pg_dump).",
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="RUN", help="Measure nothing; print a finished run's recipe again."),
    ] = None,
    rows: Annotated[str, typer.Option("--rows", metavar="N", help="Rows to generate: 200k, 10M.")] = "200k",
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Rows instead: CSV with a header, or .parquet."),
    ] = None,
    filled: Annotated[
        str | None,
        typer.Option("--filled", metavar="N", help="Rows that the table holds already. Default: none."),
    ] = None,
    may_lose: Annotated[
        str,
        typer.Option("--may-lose", metavar="WHAT", help=f"While loading: {', '.join(_CLASSES)}."),
    ] = "nothing",
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay", metavar="SQL", help="SQL that does for the whole table what its triggers do by row."
        ),
    ] = None,
    ddl_as_superuser: Annotated[
        bool,
        typer.Option(
            "--ddl-as-superuser",
            help="Run the DDL and the loads as superuser of a throw-away server, not as a plain role.",
        ),
    ] = False,
    rounds: options.Rounds = None,
    pg: options.Pg = None,
    seed: options.Seed = None,
    on: options.On = None,
    waldir: options.WalFolder = None,
    out: options.Out = options.DEFAULT_OUT,
    store: options.StoreUrl = None,
    json: options.Json = False,
    dry_run: options.DryRun = False,
    new: options.New = False,
) -> None:
    """Measure every step of a load on a clone of a table's definition; print the recipe as a psql script.

    The server with the table is read and never changed; rows go into throw-away clusters only.
    """
    from walproof.cli.execution import carry_out
    from walproof.lab.load_advice import Wanted, advice_study, only_table
    from walproof.lab.load_source import table_of
    from walproof.lab.study import Overrides, resolve
    from walproof.postgres import install as installs
    from walproof.postgres.reach import reachable_install
    from walproof.postgres.workspace import Workspace
    from walproof.privilege.user import server_user
    from walproof.sqltext import copy_file, statement

    if run is not None:
        if table is not None:
            raise StudyError("--run and --table are given", hint="A finished run has its table.")
        _show_again(run, out, store, pg, json=json)
        return
    if table is None:
        raise StudyError("no table is named", hint="Name one with --table, or a finished run with --run.")
    if may_lose not in _CLASSES:
        raise StudyError(f'--may-lose is "{may_lose}"', hint=f"It is one of {', '.join(_CLASSES)}.")
    if pg is not None and len(pg) > 1:
        raise StudyError("load-advice is for one PostgreSQL", hint="Name one with --pg.")
    found: Install = installs.find(pg[0] if pg else None)
    shown, ddl, name = _read_table(table, found)
    wanted = Wanted(
        table=name or only_table(ddl),
        ddl=ddl,
        rows=_count("--rows", rows),
        file=None if file is None else str(file.absolute()),
        replay=None if replay is None else _read(replay).strip().rstrip(";"),
        may_lose=_CLASSES[may_lose],
        filled=0 if filled is None else _count("--filled", filled),
        ddl_as_superuser=ddl_as_superuser,
    )
    # What no recipe can hold is refused before hours of measuring, not after them.
    if wanted.file is not None:
        copy_file(wanted.file)
    if wanted.replay is not None:
        statement(wanted.replay)
    folder = options.work_folder(on)
    user = server_user()
    with Workspace(folder, user) as workspace:
        known = table_of(
            wanted.ddl, wanted.table, reachable_install(found, user), workspace,
            as_superuser=ddl_as_superuser, say=_say,
        )  # fmt: skip
    study = advice_study(wanted, known, found)
    (labelled,) = installs.label_all([found])
    plan = resolve(
        study, Overrides(rounds=rounds or _ROUNDS, seed=seed, waldir=waldir), folder=folder, given=(labelled,)
    )
    command = options.command_line(
        "load-advice", table=shown, rows=rows, file=file, filled=filled, may_lose=may_lose, replay=replay,
        ddl_as_superuser=ddl_as_superuser, rounds=rounds, pg=pg, seed=seed, on=on, waldir=waldir, out=out,
    )  # fmt: skip

    def show(run: Run, store: Store) -> None:
        _show(run, store, known, _CLASSES[may_lose], json=json)

    carry_out(plan, command, out=out, store_url=store, dry_run=dry_run, json=json, fresh=new, show=show)


def _say(note: str) -> None:
    sys.stderr.write(f"{note}\n")


def _show_again(name: str, out: Path, store_url: str | None, pg: list[str] | None, *, json: bool) -> None:
    """The recipe of a stored run. Its table is made once more, from the run's own SQL, to be read."""
    from walproof.lab.load_source import table_of
    from walproof.postgres import install as installs
    from walproof.postgres.reach import reachable_install
    from walproof.postgres.workspace import Workspace
    from walproof.privilege.user import server_user

    opened = options.open_existing_store(out, store_url)
    try:
        run = opened.run(name)
        load = run.plan.load
        if run.plan.study != "load-advice" or load is None:
            raise StudyError(
                f'run {run.id} is of study "{run.plan.study}", not of load-advice',
                hint='"walproof runs" lists them.',
            )
        if run.finished_at is None:
            raise StudyError(f"run {run.id} is not finished", hint=f"To finish it: {shlex.join(run.command)}")
        # Not the folder that the store names: whoever writes there would choose what is started here.
        install = installs.resolve(run.plan.installs[0], pg[0] if pg else None)
        user = server_user()
        with Workspace(options.work_folder(None), user) as workspace:
            known = table_of(
                load.ddl, load.table, reachable_install(install, user), workspace,
                as_superuser=load.ddl_as_superuser, say=_say,
            )  # fmt: skip
        words = list(run.command)
        given = words[words.index("--may-lose") + 1] if "--may-lose" in words else "nothing"
        _show(run, opened, known, _CLASSES[given], json=json)
    finally:
        opened.close()


def _show(run: Run, store: Store, table: Table, may_lose: DurabilityClass, *, json: bool) -> None:
    """The recipe on stdout, without the steps that gained nothing."""
    from walproof.advise.loading import advise_load
    from walproof.analysis.summary import analyse
    from walproof.lab.load_advice import STEPS
    from walproof.report.load import LOAD_METRIC
    from walproof.report.load_script import Recipe, load_script
    from walproof.workload.loading.steps import around

    load = run.plan.load
    assert load is not None
    analysis = analyse(run.plan, store.trials(run.id), LOAD_METRIC)
    (advice,) = advise_load(run.plan, analysis, may_lose)
    dropped = set(advice.left_out)
    gone = {step for name, steps in STEPS.items() if name in dropped for step in steps}
    steps = tuple(step for step in advice.variant.load.steps if step not in gone)
    about = around(table, steps, load.replay, run.plan.installs[0].version_num)
    variant = advice.variant
    settings = [
        (name, value)
        for name, value in {**variant.settings, **variant.implied}.items()
        if f"{name}={value}" not in dropped
    ]
    recipe = Recipe(
        table=table.name,
        columns=table.column_list,
        before=about.before,
        first=about.first,
        after=about.after,
        is_frozen=about.is_frozen,
        undo=tuple(one for one in about.after if one != load.replay),
        is_filled=load.filled > 0,
    )
    if json:
        from walproof.report.load_json import load_json

        sys.stdout.write(load_json(run.id, advice, recipe, settings, load.file))
    else:
        sys.stdout.write(load_script(advice, recipe, settings, load.file))


def _read_table(text: str, install: Install) -> tuple[str, str, str | None]:
    """(the option as it may be stored, SQL, the table's name where it was given)."""
    from walproof.postgres.schema import dump_schema, without_password

    if text.endswith(".sql"):
        return text, _read(Path(text)), None
    place, colon, name = text.rpartition(":")
    if not colon or not name:
        raise StudyError(
            f'--table "{text}" names no table', hint="Write FILE.sql, FILE.sql:NAME, or DSN:NAME."
        )
    if place.endswith(".sql"):
        return text, _read(Path(place)), name
    return f"{without_password(place)}:{name}", dump_schema(place, [install]), name


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(
            f'could not read file "{path}"', detail=getattr(error, "strerror", None) or str(error)
        ) from error


def _count(option: str, text: str) -> int:
    """``200k``, ``10M``, ``5000``."""
    factor = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    digits = text if factor == 1 else text[:-1]
    if not digits.isdigit() or int(digits) == 0:
        raise StudyError(f'{option} is "{text}"', hint="Write a number such as 5000, 200k or 10M.")
    return int(digits) * factor
