"""The append-only store of facts: SQLite in a file, or a PostgreSQL that a team shares.

A row is written once and never changed, only removed with its whole run: a run, then a trial at a time (with
its metrics and series, in one transaction), at last the end of the run. What a reader sees is therefore
always whole trials.
The same SQLAlchemy Core statements serve both databases.
"""

from __future__ import annotations

import json
import math
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from walproof.errors import StoreError
from walproof.facts.claim import claim, claimed
from walproof.facts.codec import from_json, plan_hash, to_json
from walproof.facts.moving import (
    CopiedRun,
    checked_id,
    delete_rows,
    free_id,
    read_rows,
    same_run,
    write_rows,
)
from walproof.facts.opening import open_database
from walproof.facts.plan import Plan
from walproof.facts.requests import answer, ask, read_requests
from walproof.facts.run import (
    BegunTrial,
    CutFacts,
    Environment,
    Extent,
    Request,
    RequestKind,
    Run,
    Series,
    Slice,
    Trial,
    TrialState,
)
from walproof.facts.tables import (
    METRIC,
    POWER_CUT,
    RUN,
    RUN_END,
    SERIES,
    SLICE,
    TRIAL,
    TRIAL_BEGIN,
)


class Store:
    """Open store. One process writes a run; any number may read.

    ``url`` is an address for libpq (``postgresql://user@host/db``) or a path of an SQLite file. What is
    missing of it is made, unless it ``must_exist``. Raises StoreError when it cannot be opened or written;
    the message never holds a password. Raises StoreMissingError where there is none and one must exist.
    """

    def __init__(self, url: str | Path, *, must_exist: bool = False) -> None:
        self._place, self._engine = open_database(url, must_exist=must_exist)
        # A store that nobody holds any more keeps no connection, whether it was closed or not.
        weakref.finalize(self, self._engine.dispose)

    @property
    def shown(self) -> str:
        """Name of the store in messages, without secrets."""
        return self._place.shown

    @property
    def is_shared(self) -> bool:
        """Whether it is a server, which several machines may use."""
        return self._place.path is None

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
        with self._place.guarded("written"):
            while True:
                try:
                    return self._add_run(plan, command, environment, walproof_version, study_text)
                except sa.exc.IntegrityError:
                    # Another process has stored one of the same plan meanwhile: the next number is free.
                    continue

    def _add_run(
        self,
        plan: Plan,
        command: Sequence[str],
        environment: Environment,
        walproof_version: str,
        study_text: str | None,
    ) -> Run:
        digest = plan_hash(plan)
        with self._engine.begin() as connection:
            run = Run(
                id=checked_id(free_id(connection, plan.study, digest)),
                plan=plan,
                command=tuple(command),
                created_at=time.time(),
                walproof_version=walproof_version,
                study_text=study_text,
                environment=environment,
            )
            connection.execute(
                RUN.insert().values(
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

    def claim(self, run_id: str) -> AbstractContextManager[bool]:
        """Claim the run while the block lasts; false if another process has it. Raises StoreError."""
        return claim(self._engine, self._place, run_id)

    def claimed(self, run_ids: Iterable[str]) -> frozenset[str]:
        """Which of the runs some process carries out now; of a file, one of this machine."""
        return claimed(self._engine, self._place, run_ids)

    def copy_run(self, run_id: str, other: Store) -> CopiedRun:
        """Copy a run, as far as it has come, into another store. Raises StoreError."""
        with self._place.guarded("read"), self._snapshot() as connection:
            rows = read_rows(connection, run_id)
        with other._place.guarded("read"), other._engine.connect() as connection:
            there = same_run(connection, rows)
        with other.claim(there or run_id) as is_ours:
            if not is_ours and there is not None:
                raise StoreError(
                    f"run {there} is running in {other.shown}", hint="Copy it when it has ended."
                )
            with other._place.guarded("written"), other._engine.begin() as connection:
                return write_rows(connection, run_id, rows)

    @contextmanager
    def _snapshot(self) -> Iterator[sa.Connection]:
        """A connection whose queries see one moment, also while a process writes."""
        with self._engine.connect() as connection:
            if self.is_shared:
                connection.execution_options(isolation_level="REPEATABLE READ")
            else:
                connection.exec_driver_sql("BEGIN")
            yield connection

    def remove_runs(self, run_ids: Sequence[str]) -> None:
        """Remove runs and their trials, all or none. Raises StoreError, also where a process carries one
        out."""
        with ExitStack() as claims:
            for run_id in run_ids:
                if not claims.enter_context(self.claim(run_id)):
                    raise StoreError(
                        f"run {run_id} is running",
                        hint=f'"walproof runs stop {run_id}" ends it after its present trial.',
                    )
            with self._place.guarded("written"), self._engine.begin() as connection:
                for run_id in run_ids:
                    delete_rows(connection, run_id)
        self._shrink()

    def _shrink(self) -> None:
        """Give the room of removed runs back to the file system; a PostgreSQL does so by itself."""
        if self._place.path is not None:
            # Where another process reads, later runs use the room.
            with suppress(sa.exc.OperationalError), self._engine.connect() as connection:
                connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("VACUUM")

    def begin_trial(self, run_id: str, begun: BegunTrial) -> None:
        """Store that a trial begins."""
        with self._place.guarded("written"), self._engine.begin() as connection:
            connection.execute(TRIAL_BEGIN.insert().values(run_id=run_id, **asdict(begun)))

    def begun(self, run_ids: Sequence[str]) -> Mapping[str, BegunTrial]:
        """Run id -> the trial that it began last."""
        query = sa.select(TRIAL_BEGIN).where(TRIAL_BEGIN.c.run_id.in_(run_ids))
        with self._place.guarded("read"), self._engine.connect() as connection:
            return {
                row.run_id: BegunTrial(
                    **{field.name: getattr(row, field.name) for field in fields(BegunTrial)}
                )
                for row in connection.execute(query.order_by(TRIAL_BEGIN.c.began_at))
            }

    def add_trial(self, run_id: str, trial: Trial, series: Sequence[Series] = ()) -> None:
        """Store one finished trial with all that was observed, or nothing at all."""
        with self._place.guarded("written"), self._engine.begin() as connection:
            connection.execute(
                TRIAL.insert().values(
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
                connection.execute(METRIC.insert(), metrics)
            if trial.cut is not None:
                facts = {"run_id": run_id, "trial": trial.number, "facts": to_json(trial.cut)}
                connection.execute(POWER_CUT.insert().values(**facts))
            if trial.slices:
                of_trial = {"run_id": run_id, "trial": trial.number}
                connection.execute(
                    SLICE.insert(), [{**of_trial, **asdict(slice_)} for slice_ in trial.slices]
                )
            rows = [
                {
                    "run_id": run_id,
                    "trial": trial.number,
                    "name": line.name,
                    "t_s": json.dumps(line.t_s),
                    "value": json.dumps(line.values),
                }
                for line in series
            ]
            if rows:
                connection.execute(SERIES.insert(), rows)

    def finish_run(self, run_id: str) -> None:
        """Store that no round of the run is missing."""
        with self._place.guarded("written"), self._engine.begin() as connection:
            connection.execute(RUN_END.insert().values(run_id=run_id, finished_at=time.time()))

    def ask(self, run_id: str, kind: RequestKind, rounds: int = 0) -> Request:
        """Ask something of a run that is under way. Raises StoreError for what no run would grant."""
        run = self.run(run_id)
        with self._place.guarded("written"):
            return ask(self._engine, run, kind, rounds)

    def requests(self, run_id: str) -> tuple[Request, ...]:
        """What was asked of a run, in that order."""
        with self._place.guarded("read"), self._engine.connect() as connection:
            return read_requests(connection, run_id).get(run_id, ())

    def all_requests(self) -> Mapping[str, tuple[Request, ...]]:
        """Run id -> what was asked of the run, in that order; runs that were asked nothing are left out."""
        with self._place.guarded("read"), self._engine.connect() as connection:
            return read_requests(connection)

    def answer(self, run_id: str, request: Request, words: str, *, is_granted: bool) -> None:
        """Store what the run answers to a request that has no answer yet."""
        with self._place.guarded("written"):
            answer(self._engine, run_id, request, words, is_granted=is_granted)

    def runs(self) -> tuple[Run, ...]:
        """Every run, oldest first. Raises StoreError, also where an id cannot be one."""
        return self._runs()

    def run(self, name: str) -> Run:
        """The run whose id is ``name``, or the only one whose id begins so, or the newest of study ``name``.

        ``last`` is the newest of all. Raises StoreError.
        """
        if not name:
            # Every id begins so: a script whose variable is empty would get the only run.
            raise StoreError("no run is named", hint='"walproof runs" lists them; "last" is the newest.')
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
            detail=f"The store {self._place.shown} holds "
            + (", ".join(run.id for run in (begins or runs)[-8:]) or "no run yet")
            + ".",
            hint='Use "walproof runs" to see them all, or --out to name another folder of results.',
        )

    def trials(self, run_id: str) -> tuple[Trial, ...]:
        """Every stored trial of a run, in the order in which they ran."""
        with self._place.guarded("read"), self._engine.connect() as connection:
            metrics: dict[int, dict[str, float]] = {}
            for row in connection.execute(
                sa.select(METRIC.c.trial, METRIC.c.name, METRIC.c.value)
                .where(METRIC.c.run_id == run_id)
                .order_by(METRIC.c.trial, METRIC.c.name)
            ):
                metrics.setdefault(row.trial, {})[row.name] = row.value
            rows = connection.execute(
                sa.select(TRIAL).where(TRIAL.c.run_id == run_id).order_by(TRIAL.c.number)
            )
            cuts = {
                row.trial: from_json(CutFacts, row.facts)
                for row in connection.execute(sa.select(POWER_CUT).where(POWER_CUT.c.run_id == run_id))
            }
            slices: dict[int, list[Slice]] = {}
            for row in connection.execute(
                sa.select(SLICE).where(SLICE.c.run_id == run_id).order_by(SLICE.c.trial, SLICE.c.number)
            ):
                slices.setdefault(row.trial, []).append(_to_slice(row))
            return tuple(
                _to_trial(row, metrics.get(row.number, {}), cuts.get(row.number), slices.get(row.number, []))
                for row in rows
            )

    def extents(self) -> Mapping[str, Extent]:
        """Run id -> how much of it is stored; counted by the database, without reading trials."""
        failed = sa.func.sum(sa.case((TRIAL.c.state == TrialState.FAILED.value, 1), else_=0))
        counts = (
            sa.func.count(TRIAL.c.number),
            failed,
            sa.func.max(TRIAL.c.round),
            sa.func.max(TRIAL.c.ended_at),
        )
        query = (
            sa.select(RUN.c.id, RUN_END.c.finished_at, *counts)
            .select_from(
                RUN.outerjoin(TRIAL, RUN.c.id == TRIAL.c.run_id).outerjoin(
                    RUN_END, RUN.c.id == RUN_END.c.run_id
                )
            )
            .group_by(RUN.c.id, RUN_END.c.finished_at)
        )
        with self._place.guarded("read"), self._engine.connect() as connection:
            return {
                run_id: Extent(trials, int(failures or 0), rounds or 0, newest, finished_at)
                for run_id, finished_at, trials, failures, rounds, newest in connection.execute(query)
            }

    def series(self, run_id: str, names: Sequence[str] | None = None) -> tuple[Series, ...]:
        """Series of all trials of a run, of the given names or all."""
        query = sa.select(SERIES).where(SERIES.c.run_id == run_id)
        if names is not None:
            query = query.where(SERIES.c.name.in_(names))
        with self._place.guarded("read"), self._engine.connect() as connection:
            return tuple(
                Series(
                    trial=row.trial,
                    name=row.name,
                    t_s=tuple(json.loads(row.t_s)),
                    values=tuple(json.loads(row.value)),
                )
                for row in connection.execute(query.order_by(SERIES.c.trial, SERIES.c.name))
            )

    def _runs(self) -> tuple[Run, ...]:
        query = (
            sa.select(RUN, RUN_END.c.finished_at)
            .select_from(RUN.outerjoin(RUN_END, RUN.c.id == RUN_END.c.run_id))
            .order_by(RUN.c.created_at, RUN.c.id)
        )
        with self._place.guarded("read"), self._engine.connect() as connection:
            requests = read_requests(connection)
            return tuple(
                Run(
                    id=checked_id(row.id),
                    plan=from_json(Plan, row.plan),
                    command=tuple(json.loads(row.command)),
                    created_at=row.created_at,
                    walproof_version=row.walproof_version,
                    environment=from_json(Environment, row.environment),
                    study_text=row.study_text,
                    finished_at=row.finished_at,
                    requests=requests.get(row.id, ()),
                )
                for row in connection.execute(query)
            )


def _to_slice(row: Any) -> Slice:
    return Slice(**{field.name: getattr(row, field.name) for field in fields(Slice)})


def _to_trial(row: Any, metrics: Mapping[str, float], cut: CutFacts | None, slices: Sequence[Slice]) -> Trial:
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
        slices=tuple(slices),
    )
