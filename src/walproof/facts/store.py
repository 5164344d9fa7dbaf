"""The append-only store of facts: SQLite in a file, or a PostgreSQL that a team shares.

A row is written once and never changed: a run, then a trial at a time (with its metrics and series, in
one transaction), at last the end of the run. What a reader sees is therefore always whole trials.
The same SQLAlchemy Core statements serve both databases.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from walproof.errors import StoreError
from walproof.facts.codec import from_json, plan_hash, to_json
from walproof.facts.model import CutFacts, Environment, Plan, Run, Series, Trial, TrialState

STORE_FORMAT = 1
_CREATION_LOCK = 0x77616C70
"""Key of the PostgreSQL advisory lock under which tables are made ("walp")."""

_metadata = sa.MetaData()

_format = sa.Table("walproof_format", _metadata, sa.Column("format", sa.Integer, primary_key=True))

_run = sa.Table(
    "run",
    _metadata,
    sa.Column("id", sa.String(200), primary_key=True),
    sa.Column("study", sa.Text, nullable=False),
    sa.Column("plan_hash", sa.String(64), nullable=False, index=True),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("command", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("walproof_version", sa.Text, nullable=False),
    sa.Column("environment", sa.Text, nullable=False),
    sa.Column("study_text", sa.Text),
)

_run_end = sa.Table(
    "run_end",
    _metadata,
    sa.Column("run_id", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("finished_at", sa.Double, nullable=False),
)

_trial = sa.Table(
    "trial",
    _metadata,
    sa.Column("run_id", sa.ForeignKey("run.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("install", sa.Text, nullable=False),
    sa.Column("workload", sa.Text, nullable=False),
    sa.Column("variant", sa.Text, nullable=False),
    sa.Column("state", sa.String(10), nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double, nullable=False),
    sa.Column("window_start", sa.Double),
    sa.Column("window_s", sa.Double),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("warnings", sa.Text, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("server_log", sa.Text),
)

_of_trial = ("run_id", "trial")

_metric = sa.Table(
    "metric",
    _metadata,
    sa.Column("run_id", sa.String(200), primary_key=True),
    sa.Column("trial", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("value", sa.Double, nullable=False),
    sa.ForeignKeyConstraint(_of_trial, ["trial.run_id", "trial.number"]),
)

_series = sa.Table(
    "series",
    _metadata,
    sa.Column("run_id", sa.String(200), primary_key=True),
    sa.Column("trial", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("t_s", sa.Text, nullable=False),
    sa.Column("value", sa.Text, nullable=False),
    sa.ForeignKeyConstraint(_of_trial, ["trial.run_id", "trial.number"]),
)


_power_cut = sa.Table(
    "power_cut",
    _metadata,
    sa.Column("run_id", sa.String(200), primary_key=True),
    sa.Column("trial", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.ForeignKeyConstraint(_of_trial, ["trial.run_id", "trial.number"]),
)


class Store:
    """Open store. One process writes a run; any number may read.

    ``url`` is a SQLAlchemy URL (``postgresql://user@host/db``) or a path of an SQLite file, whose folder
    is made. Raises StoreError when it cannot be opened or written; the message never holds a password.
    """

    def __init__(self, url: str | Path) -> None:
        self._where, engine_url = _resolve(url)
        try:
            self._engine = sa.create_engine(engine_url)
            if self._engine.dialect.name == "sqlite":
                sa.event.listen(self._engine, "connect", _prepare_sqlite)
            elif self._engine.dialect.name != "postgresql":
                raise StoreError(
                    f'store of kind "{self._engine.dialect.name}" is not supported',
                    hint="Use a path of an SQLite file or a postgresql:// URL.",
                )
            with self._guard("opened"):
                # The newest of the tables: a store of an earlier walproof gets those that it lacks.
                if not sa.inspect(self._engine).has_table(_power_cut.name):
                    self._create_tables()
                self._check_format()
        except (sa.exc.ArgumentError, ModuleNotFoundError) as error:
            raise StoreError(
                f'invalid store: "{self._where}"', hint="Use a path or a postgresql:// URL."
            ) from error

    def close(self) -> None:
        """Release every connection."""
        self._engine.dispose()

    def add_run(
        self,
        plan: Plan,
        command: Sequence[str],
        environment: Environment,
        walproof_version: str,
        study_text: str | None = None,
    ) -> Run:
        """Store the beginning of a run of ``plan`` and give it an id that no other run has."""
        digest = plan_hash(plan)
        base = f"{plan.study}-{digest[:8]}"
        with self._guard("written"), self._engine.begin() as connection:
            taken = connection.scalar(
                sa.select(sa.func.count()).select_from(_run).where(_run.c.plan_hash == digest)
            )
            run = Run(
                id=base if not taken else f"{base}-{taken + 1}",
                plan=plan,
                command=tuple(command),
                created_at=time.time(),
                walproof_version=walproof_version,
                study_text=study_text,
                environment=environment,
            )
            connection.execute(
                _run.insert().values(
                    id=run.id,
                    study=plan.study,
                    plan_hash=digest,
                    plan=to_json(plan),
                    command=json.dumps(run.command),
                    created_at=run.created_at,
                    walproof_version=walproof_version,
                    environment=to_json(environment),
                    study_text=study_text,
                )
            )
        return run

    def add_trial(self, run_id: str, trial: Trial, series: Sequence[Series] = ()) -> None:
        """Store one finished trial with all that was observed, or nothing at all."""
        with self._guard("written"), self._engine.begin() as connection:
            connection.execute(
                _trial.insert().values(
                    run_id=run_id,
                    number=trial.number,
                    round=trial.round,
                    install=trial.install,
                    workload=trial.workload,
                    variant=trial.variant,
                    state=trial.state.value,
                    started_at=trial.started_at,
                    ended_at=trial.ended_at,
                    window_start=trial.window_start,
                    window_s=trial.window_s,
                    settings=json.dumps(dict(trial.settings)),
                    warnings=json.dumps(trial.warnings),
                    reason=trial.reason,
                    server_log=trial.server_log,
                )
            )
            metrics = [
                {"run_id": run_id, "trial": trial.number, "name": name, "value": float(value)}
                for name, value in trial.metrics.items()
                if math.isfinite(value)
            ]
            if metrics:
                connection.execute(_metric.insert(), metrics)
            if trial.cut is not None:
                facts = {"run_id": run_id, "trial": trial.number, "facts": to_json(trial.cut)}
                connection.execute(_power_cut.insert().values(**facts))
            rows = [
                {
                    "run_id": run_id,
                    "trial": trial.number,
                    "name": one.name,
                    "t_s": json.dumps(one.t_s),
                    "value": json.dumps(one.values),
                }
                for one in series
            ]
            if rows:
                connection.execute(_series.insert(), rows)

    def finish_run(self, run_id: str) -> None:
        """Store that no round of the run is missing."""
        with self._guard("written"), self._engine.begin() as connection:
            connection.execute(_run_end.insert().values(run_id=run_id, finished_at=time.time()))

    def runs(self) -> tuple[Run, ...]:
        """Every run, oldest first."""
        return self._runs()

    def run(self, name: str) -> Run:
        """The run whose id is ``name``, or the only one whose id begins so, or the newest of study ``name``.

        ``last`` is the newest of all. Raises StoreError.
        """
        runs = self._runs()
        if name == "last" and runs:
            return runs[-1]
        exact = [run for run in runs if run.id == name]
        of_study = [run for run in runs if run.plan.study == name]
        begins = [run for run in runs if run.id.startswith(name)]
        if exact or of_study:
            return (exact or of_study)[-1]
        if len(begins) == 1:
            return begins[0]
        raise StoreError(
            f'run "{name}" is ambiguous' if begins else f'run "{name}" does not exist',
            detail=f"The store {self._where} holds "
            + (", ".join(run.id for run in (begins or runs)[-8:]) or "no run yet")
            + ".",
            hint='Use "walproof runs" to see them all, or --out to name another folder of results.',
        )

    def trials(self, run_id: str) -> tuple[Trial, ...]:
        """Every stored trial of a run, in the order in which they ran."""
        with self._guard("read"), self._engine.connect() as connection:
            metrics: dict[int, dict[str, float]] = {}
            for row in connection.execute(
                sa.select(_metric.c.trial, _metric.c.name, _metric.c.value)
                .where(_metric.c.run_id == run_id)
                .order_by(_metric.c.trial, _metric.c.name)
            ):
                metrics.setdefault(row.trial, {})[row.name] = row.value
            rows = connection.execute(
                sa.select(_trial).where(_trial.c.run_id == run_id).order_by(_trial.c.number)
            )
            cuts = {
                row.trial: from_json(CutFacts, row.facts)
                for row in connection.execute(sa.select(_power_cut).where(_power_cut.c.run_id == run_id))
            }
            return tuple(_to_trial(row, metrics.get(row.number, {}), cuts.get(row.number)) for row in rows)

    def series(self, run_id: str, names: Sequence[str] | None = None) -> tuple[Series, ...]:
        """Series of all trials of a run, of the given names or all."""
        query = sa.select(_series).where(_series.c.run_id == run_id)
        if names is not None:
            query = query.where(_series.c.name.in_(names))
        with self._guard("read"), self._engine.connect() as connection:
            return tuple(
                Series(
                    trial=row.trial,
                    name=row.name,
                    t_s=tuple(json.loads(row.t_s)),
                    values=tuple(json.loads(row.value)),
                )
                for row in connection.execute(query.order_by(_series.c.trial, _series.c.name))
            )

    def _runs(self) -> tuple[Run, ...]:
        query = (
            sa.select(_run, _run_end.c.finished_at)
            .select_from(_run.outerjoin(_run_end, _run.c.id == _run_end.c.run_id))
            .order_by(_run.c.created_at, _run.c.id)
        )
        with self._guard("read"), self._engine.connect() as connection:
            return tuple(
                Run(
                    id=row.id,
                    plan=from_json(Plan, row.plan),
                    command=tuple(json.loads(row.command)),
                    created_at=row.created_at,
                    walproof_version=row.walproof_version,
                    environment=from_json(Environment, row.environment),
                    study_text=row.study_text,
                    finished_at=row.finished_at,
                )
                for row in connection.execute(query)
            )

    def _create_tables(self) -> None:
        """Make all tables in one transaction that a second process, opening the same store, waits for."""
        with self._engine.connect() as plain:
            connection = plain.execution_options(isolation_level="AUTOCOMMIT")
            if self._engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.exec_driver_sql("BEGIN")
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})")
            is_new = not sa.inspect(connection).has_table(_format.name)
            _metadata.create_all(connection)
            if is_new:
                connection.execute(_format.insert().values(format=STORE_FORMAT))
            connection.exec_driver_sql("COMMIT")

    def _check_format(self) -> None:
        with self._engine.connect() as connection:
            stored = connection.scalar(sa.select(_format.c.format))
        if stored != STORE_FORMAT:
            raise StoreError(
                f"store {self._where} has format {stored}, expected {STORE_FORMAT}",
                hint="It was written by another version of walproof; name another store.",
            )

    @contextmanager
    def _guard(self, verb: str) -> Iterator[None]:
        """Turn what the database says into a StoreError without URL or parameters."""
        try:
            yield
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            raise StoreError(
                f"store {self._where} cannot be {verb}",
                detail=str(cause).strip().splitlines()[0],
                hint="Is the folder writable and the server up? --out and --store name another place.",
            ) from None


def _resolve(url: str | Path) -> tuple[str, str]:
    """(name to show, without password; URL for SQLAlchemy with a driver that walproof has)."""
    text = str(url)
    if "://" not in text:
        path = Path(text).absolute()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f'could not create folder "{path.parent}": {error.strerror}',
                hint="Name a folder that you can write with --out.",
            ) from error
        return str(path), f"sqlite:///{path}"
    for prefix in ("postgresql://", "postgres://"):
        if text.startswith(prefix):
            text = "postgresql+psycopg://" + text.removeprefix(prefix)
    try:
        return sa.make_url(text).render_as_string(hide_password=True), text
    except sa.exc.ArgumentError:
        raise StoreError("invalid store URL", hint="Use a path or postgresql://user@host/db.") from None


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # WAL: readers do not block the writer. FULL: a stored trial survives a power cut.
    for pragma in ("busy_timeout=10000", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _to_trial(row: Any, metrics: Mapping[str, float], cut: CutFacts | None) -> Trial:
    return Trial(
        number=row.number,
        round=row.round,
        install=row.install,
        workload=row.workload,
        variant=row.variant,
        state=TrialState(row.state),
        started_at=row.started_at,
        ended_at=row.ended_at,
        window_start=row.window_start,
        window_s=row.window_s,
        metrics=metrics,
        settings=json.loads(row.settings),
        warnings=tuple(json.loads(row.warnings)),
        reason=row.reason,
        server_log=row.server_log,
        cut=cut,
    )
