"""``walproof load-advice``: the recipe for loading somebody's own table, measured on a clone of it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from walproof.cli import options, study_options
from walproof.cli.declaration import Override, command_line, declared, options_of, overrides
from walproof.cli.server_user import say_server_user
from walproof.cli.streams import say
from walproof.errors import StudyError
from walproof.sentences import say_list

if TYPE_CHECKING:
    from walproof.facts import Install, Run
    from walproof.facts.store import Store
    from walproof.settings.durability import DurabilityClass
    from walproof.workload.loading.table import LoadedTable

_WITHIN, _ROUNDS_MOST = 0.10, 12
"""Without --rounds, --within and --budget: short loads, which vary most, are repeated."""
_ROWS = "200k"
_MAY_LOSE = "nothing"
_OF_FINISHED = frozenset({"run", "may_lose", "ddl_as_superuser", "pg", "on", "out", "store", "json"})
"""Options that have a meaning where nothing is measured."""


@dataclass(frozen=True, slots=True)
class LoadAdviceOptions:
    """What ``walproof load-advice`` is given."""

    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="FILE.sql[:NAME]|DSN:NAME",
            help="The table: a file of SQL that creates it, or its place (read by pg_dump): "
            '"service=shop:orders".',
        ),
    ] = None
    run: Annotated[
        str | None,
        typer.Option(
            "--run", metavar="RUN", help="Measure nothing; print the recipe of a finished run again."
        ),
    ] = None
    rows: Annotated[
        str | None,
        typer.Option("--rows", metavar="N", help="Rows to generate: 5000, 10M. Default: 200k."),
    ] = None
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Rows to load instead: CSV with a header, or .parquet."),
    ] = None
    filled: Annotated[
        str | None,
        typer.Option("--filled", metavar="N", help="Rows that the table already holds. Default: none."),
    ] = None
    may_lose: Annotated[
        str | None,
        typer.Option(
            "--may-lose",
            metavar="WHAT",
            help=f"While loading: {options.LOSSES}. Default: {_MAY_LOSE}.",
        ),
    ] = None
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay",
            metavar="SQL",
            help="SQL that does for the whole table what its triggers do for each row.",
        ),
    ] = None
    ddl_as_superuser: Annotated[
        bool,
        typer.Option(
            "--ddl-as-superuser",
            help="Run the DDL and the loads as superuser of a throw-away server, not as a plain role.",
        ),
    ] = False
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds",
            min=1,
            help="Rounds to run (at most). Default: 12; with --within or --budget as many as it takes.",
        ),
        Override("rounds"),
    ] = None
    within: Annotated[
        str | None,
        typer.Option(
            "--within",
            metavar="SHARE",
            help="After a pilot, run as many rounds as it takes to know every ratio within this share. "
            "Default: 10%; none with --rounds or --budget.",
        ),
        Override("within", study_options.parse_share),
    ] = None
    budget: study_options.Budget = None
    pg: study_options.Pg = None
    seed: study_options.Seed = None
    on: options.On = None
    waldir: study_options.WalFolder = None
    out: study_options.Out = options.DEFAULT_OUT
    store: study_options.StoreUrl = None
    json: study_options.Json = False
    dry_run: study_options.DryRun = False
    new: study_options.New = False


@declared
def load_advice(given: LoadAdviceOptions) -> None:
    """Measure every step of a load on a clone of your table.

    The recipe is printed as a psql script.

    The server with the table is read and never changed; rows go into throw-away clusters only.
    """
    from walproof.cli import promises
    from walproof.cli.execution import carry_out
    from walproof.lab.kinds.loading.advice import Wanted, advice_study, only_table
    from walproof.lab.kinds.loading.source import table_of
    from walproof.lab.study import resolve
    from walproof.postgres import install as installs
    from walproof.postgres.reach import reachable_install
    from walproof.postgres.workspace import Workspace
    from walproof.privilege.user import server_user
    from walproof.sqltext import copy_file, statement
    from walproof.workload.loading.excerpt import excerpt
    from walproof.workload.loading.file_rows import rows_in

    if given.run is not None:
        _refuse_beside_run(given)
        _show_again(given.run, given)
        return
    if given.file is None and given.rows is None:
        # It is part of the command that is kept, so that a later default changes nothing.
        given = replace(given, rows=_ROWS)
    table = given.table
    if table is None:
        raise StudyError("no table is named", hint="Name a table with --table, or a finished run with --run.")
    if given.file is not None and given.rows is not None:
        raise StudyError(
            "--rows and --file exclude each other", hint="All rows of the file are loaded: leave out --rows."
        )
    word = _MAY_LOSE if given.may_lose is None else given.may_lose
    may_lose = promises.may_lose(word)
    # It is part of the command that is kept, too.
    given = replace(given, may_lose=word)
    if given.pg is not None and len(given.pg) > 1:
        raise StudyError("load-advice is for one PostgreSQL", hint="Name one with --pg.")
    source = _read_table(table, given.pg)
    found = _install(given.pg, source)
    if given.pg is None and source.version_num is not None:
        # It is part of the command that is kept, so that another default changes nothing.
        given = replace(given, pg=[str(found.version_num // 10000)])
    name = source.name or only_table(source.sql)
    # What else a dump holds is nobody's business: other tables, who replicates from where, keys of servers.
    ddl = excerpt(source.sql, name)
    if given.file is not None:
        # What no recipe can name is refused before hours of measuring, not after them.
        copy_file(str(given.file.absolute()))
    wanted = Wanted(
        table=name,
        ddl=ddl,
        rows=_count("--rows", given.rows or _ROWS) if given.file is None else rows_in(given.file),
        file=None if given.file is None else str(given.file.absolute()),
        replay=None if given.replay is None else _read(given.replay).strip().rstrip(";"),
        may_lose=may_lose,
        filled=0 if given.filled is None else _count("--filled", given.filled),
        ddl_as_superuser=given.ddl_as_superuser,
        notes=_say_major(found, name, source),
    )
    # The same for what no recipe can hold.
    if wanted.replay is not None:
        statement(wanted.replay)
    folder = options.work_folder(given.on)
    user = server_user()
    with Workspace(folder, user) as workspace:
        known = table_of(
            wanted.ddl, wanted.table, reachable_install(found, user), workspace,
            as_superuser=given.ddl_as_superuser, say=say,
        )  # fmt: skip
    parents = _parents(known)
    if given.file is not None and parents:
        say(
            f"not checked: whether every key that the file names is in {say_list(parents)}, "
            "as no row of a server is read"
        )
    study = advice_study(wanted, known, found)
    (labelled,) = installs.label_all([found])
    changed = overrides(given)
    if given.rounds is None and given.within is None and given.budget is None:
        changed = replace(changed, rounds=_ROUNDS_MOST, within=_WITHIN)
    plan = resolve(study, changed, folder=folder, given=(labelled,))

    def show(run: Run, store: Store) -> None:
        _show(run, store, known, may_lose, json=given.json)

    # Of a connection string, what is stored is what may be shown.
    carry_out(plan, command_line("load-advice", replace(given, table=source.shown)), given, show=show)


def _parents(table: LoadedTable) -> tuple[str, ...]:
    """Other tables that its foreign keys point at."""
    return tuple(dict.fromkeys(key.target for key in table.foreign_keys if key.target != table.name))


def _install(named: list[str] | None, source: _Source) -> Install:
    """What is measured: the install that was named, else one like the server that was read, if there is one.
    Raises InstallError."""
    from walproof.cli.majors import install_like
    from walproof.postgres.install import find

    if named is None and source.version_num is not None:
        return install_like(source.version_num) or find(None)
    return find(named[0] if named else None)


def _say_major(found: Install, name: str, source: _Source) -> tuple[str, ...]:
    """Say on stderr, and for the study, that the server that was read is of another major version."""
    from walproof.cli.majors import other_major

    if source.version_num is None:
        return ()
    major = source.version_num // 10000
    note = other_major(f"the server of {name}", major, [found])
    if note is None:
        return ()
    say(note)
    return (note,)


def _refuse_beside_run(given: LoadAdviceOptions) -> None:
    for option in options_of(type(given)):
        if option.name not in _OF_FINISHED and getattr(given, option.name) != option.default:
            raise StudyError(
                f"--run and {option.flag} exclude each other",
                hint="A finished run has its table, its rows and its rounds: nothing more is measured.",
            )


def may_lose_again(command: Sequence[str], typed: str | None) -> DurabilityClass:
    """What the recipe of a finished run may lose: what was measured by its ``command``, or less.

    Raises StudyError for more, which was not measured, SettingError.
    """
    from walproof.cli.promises import may_lose

    words = list(command)
    asked = words[words.index("--may-lose") + 1] if "--may-lose" in words else _MAY_LOSE
    measured = may_lose(asked)
    wanted = measured if typed is None else may_lose(typed)
    if wanted.rank > measured.rank:
        raise StudyError(
            f"the run did not measure loads that may lose {typed}",
            detail=f"It was measured with --may-lose {asked}.",
            hint="Measure again, with --table instead of --run.",
        )
    return wanted


def _show_again(name: str, given: LoadAdviceOptions) -> None:
    """The recipe of a stored run. Its table is made once more, from the run's own SQL, to be read."""
    from walproof.facts import Load
    from walproof.lab.kinds.loading.source import table_of
    from walproof.postgres import install as installs
    from walproof.postgres.reach import reachable_install
    from walproof.postgres.workspace import Workspace
    from walproof.privilege.user import server_user

    opened = options.open_existing_store(given.out, given.store)
    try:
        run = opened.run(name)
        if run.plan.study != "load-advice":
            raise StudyError(
                f'run {run.id} is of study "{run.plan.study}", not of load-advice',
                hint='"walproof runs" lists them.',
            )
        load = run.plan.kind_as(Load)
        if run.finished_at is None:
            raise StudyError(f"run {run.id} is not finished", hint=f"To finish it: {shlex.join(run.command)}")
        may_lose = may_lose_again(run.command, given.may_lose)
        if load.ddl_as_superuser and not given.ddl_as_superuser:
            # Whoever writes to the store would start programs here.
            raise StudyError(
                f"the DDL of run {run.id} was run as superuser, who may start programs",
                hint="If it is yours, or of somebody whom you trust, --ddl-as-superuser runs it so again.",
            )
        # Not the folder that the store names: whoever writes there would choose what is started here.
        install = installs.resolve(run.plan.installs[0], given.pg[0] if given.pg else None)
        say_server_user()
        user = server_user()
        with Workspace(options.work_folder(given.on), user) as workspace:
            known = table_of(
                load.ddl, load.table, reachable_install(install, user), workspace,
                as_superuser=given.ddl_as_superuser and load.ddl_as_superuser, say=say,
            )  # fmt: skip
        _show(run, opened, known, may_lose, json=given.json)
    finally:
        opened.close()


def _show(run: Run, store: Store, table: LoadedTable, may_lose: DurabilityClass, *, json: bool) -> None:
    """The recipe on stdout, without the steps that gained nothing. Raises AnalysisError where nothing was
    measured: a recipe would look as if it had been."""
    from walproof.advise.loading import advise_load
    from walproof.analysis.summary import analyse
    from walproof.analysis.unmeasured import require_finished_trial
    from walproof.facts import Load, LoadMethod
    from walproof.lab.kinds.loading.advice import STEPS
    from walproof.report.kinds.loading.script import Recipe, load_script
    from walproof.report.kinds.loading.tables import LOAD_METRIC
    from walproof.workload.loading.parquet import SUFFIX
    from walproof.workload.loading.steps import around

    load = run.plan.kind_as(Load)
    trials = store.trials(run.id)
    require_finished_trial(trials)
    analysis = analyse(run.plan, trials, LOAD_METRIC)
    (advice,) = advise_load(run.plan, analysis, trials, may_lose)
    dropped = set(advice.left_out)
    gone = {step for name, steps in STEPS.items() if name in dropped for step in steps}
    if advice.settings.get("wal_level") == "minimal":
        gone.discard("truncate")  # without it a COPY writes all of its WAL, whatever wal_level is
    steps = tuple(step for step in advice.variant.conditions_as(LoadMethod).steps if step not in gone)
    is_parquet = load.file is not None and load.file.endswith(SUFFIX)
    about = around(table, steps, load.replay, run.plan.installs[0].version_num)
    settings = tuple(advice.settings.items())
    columns = table.columns_named(load.columns)
    recipe = Recipe(
        table=table.name,
        columns=", ".join(columns),
        before=about.before,
        first=about.first,
        after=about.after,
        is_frozen=about.is_frozen,
        undo=tuple(statement for statement in about.after if statement != load.replay),
        is_filled=load.filled > 0,
        steps=steps,
        parents=_parents(table),
        is_unlogged=table.is_unlogged,
        replay=load.replay,
        made_of=load.file if is_parquet else None,
        sequences=tuple(each for each in table.sequences if each[0] in columns),
    )
    file = None if is_parquet else load.file
    if json:
        from walproof.report.kinds.loading.advice_json import load_json

        sys.stdout.write(load_json(run.id, advice, recipe, settings, file))
    else:
        sys.stdout.write(load_script(advice, recipe, settings, file))


@dataclass(frozen=True, slots=True)
class _Source:
    """What ``--table`` names."""

    shown: str
    """The option as it may be stored."""
    sql: str
    name: str | None
    """The table's name where it was given."""
    version_num: int | None = None
    """Version of the server that was read; None for a file."""


def _read_table(text: str, pg: list[str] | None) -> _Source:
    from walproof.settings.conninfo import seems_conninfo, shown, split_table

    if not seems_conninfo(text):
        if text.endswith(".sql"):
            return _Source(text, _read(Path(text)), None)
        place, colon, name = text.rpartition(":")
        if colon and name and place.endswith(".sql"):
            return _Source(text, _read(Path(place)), name)
        # The text is not repeated: it may have been meant for a connection string.
        raise StudyError("--table names no table", hint="Write FILE.sql, FILE.sql:NAME, or DSN:NAME.")
    place, name = split_table(text)
    sql, version_num = _read_server(place, pg)
    return _Source(f"{shown(place)}:{name}", sql, name, version_num)


def _read_server(dsn: str, pg: list[str] | None) -> tuple[str, int]:
    """The definitions of a database, by the pg_dump that fits its server best, and the server's version."""
    from walproof.postgres.clients import find_client
    from walproof.postgres.install import discover, find
    from walproof.postgres.schema import dump_schema
    from walproof.probe.connection import connect_foreign

    with connect_foreign(dsn) as session:
        server = session.info.server_version
    program = find_client("pg_dump", server, [*map(find, pg or []), *discover()])
    say(f"definitions are read by pg_dump {program.version} ({program.path})")
    return dump_schema(dsn, program.path), server


def _read(path: Path) -> str:
    from walproof.files import reason

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f'could not read file "{path}"', detail=reason(error)) from error


def _count(option: str, text: str) -> int:
    """``200k``, ``10M``, ``5000``."""
    factor = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    digits = text if factor == 1 else text[:-1]
    if not (digits.isascii() and digits.isdigit()) or int(digits) == 0:
        raise StudyError(f'{option} is "{text}"', hint="Write a number such as 5000, 200k or 10M.")
    return int(digits) * factor
