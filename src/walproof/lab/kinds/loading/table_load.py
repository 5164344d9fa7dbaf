"""One load, until its table is as good as after any other method.

    clone, start -> [before | sessions load] -> [after] -> CHECKPOINT -> [first read] -> [VACUUM ANALYZE]
                     load_s                     finish_s                 first_read_s     vacuum_s

What some methods put off (indexes, SET LOGGED, hint bits, freezing) is thereby counted. At the end the table
has to hold the same rows and have the same definition as after plain INSERTs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from walproof.errors import ProbeError, WorkloadError, one_line
from walproof.facts import Load, LoadMethod
from walproof.lab.kinds.loading.source import PreparedLoad
from walproof.postgres.cluster import Cluster
from walproof.probe.protocol import Observation, Probe, Subject
from walproof.probe.registry import PROBES
from walproof.probe.size import SizeProbe
from walproof.units import Lsn
from walproof.workload.loading.client import Order
from walproof.workload.loading.contents import contents_of, reading_count, rows_elsewhere
from walproof.workload.loading.feeds import READY_BYTES
from walproof.workload.loading.load_target import LoadTarget
from walproof.workload.loading.owner import loader_conninfo
from walproof.workload.loading.rows import rows_done_at_half
from walproof.workload.loading.sessions import LoadSessions
from walproof.workload.loading.steps import Around, around
from walproof.workload.loading.table import LoadedTable, Session, read_table

_WATCHING = ("waits", "cpu", "io", "disk")
"""Probes that have something to say about a load; its WAL is measured by locations."""
_PATIENCE_S = 300.0
_SLOWEST_ROWS_PER_S = 20
_DRIVER_CPU = "cpu_s.pgbench"
"""The CPU probe's name for the driver, which here is one of several clients; each reports its own CPU."""


@dataclass(frozen=True, slots=True)
class BrokenOffLoad:
    """A load that was ended in the middle."""

    table: LoadedTable
    """The table's definition before the load."""
    acknowledged: int
    """Rows whose commit the clients had been told of."""


class TableLoad:
    """A load of ``prepared`` rows into the running ``cluster`` by one method."""

    def __init__(self, cluster: Cluster, prepared: PreparedLoad, load: Load, method: LoadMethod) -> None:
        self._cluster = cluster
        self._prepared = prepared
        self._load = load
        self._method = method
        self._rows = prepared.rows_of(method)
        self._loader = loader_conninfo(cluster.conninfo, as_superuser=load.ddl_as_superuser)
        self._patience_s = _PATIENCE_S + self._rows / _SLOWEST_ROWS_PER_S

    def measure(self, probes: Sequence[str]) -> Observation:
        """Carry it out, and check what is there. Raises WorkloadError.

        Metrics: ``rows``; ``rows_per_s`` of the load, ``finished_rows_per_s`` with what is done after it,
        ``complete_rows_per_s`` of everything;
        ``load_s``, ``finish_s``, ``first_read_s``, ``vacuum_s`` and their sum ``complete_s``; WAL of each as
        ``load_wal_bytes``, ...; ``wal_bytes_per_row`` of the load, ``finished_wal_bytes_per_row`` and
        ``complete_wal_bytes_per_row``;
        ``table_bytes`` in the end and ``data_bytes_max`` on the way; ``client_cpu_s``, ``client_busy`` and
        ``server_busy`` (cores that a session's client and backend used); and what probes saw of the load.
        """
        rows = self._rows
        metrics: dict[str, float] = {"rows": float(rows)}
        with self._cluster.connect(self._loader) as session, self._cluster.connect() as superuser:
            table = read_table(session, self._load.table)
            about = self._around(table)
            clock = _Phases(session, metrics)
            size = SizeProbe(self._cluster.data)
            with LoadSessions(self._orders(table, about)) as clients:
                before_bytes = size.start()
                try:
                    seen = self._watched(clock, session, clients, about, probes)
                    metrics["finish_s"] = metrics["finish_wal_bytes"] = 0.0
                    if about.after:
                        with clock.phase("finish"):
                            _run(session, about.after)
                    superuser.execute("CHECKPOINT")
                    with clock.phase("first_read"):
                        _run(session, [reading_count(table)])
                    with clock.phase("vacuum"):
                        _run(session, [f"VACUUM (ANALYZE) {table.name}"])
                finally:
                    metrics["data_bytes_max"] = float(size.stop() - before_bytes)
            metrics["table_bytes"] = _table_bytes(session, table)
            self._check(session, table)
        metrics["complete_s"] = sum(metrics[f"{phase}_s"] for phase in _PHASES)
        metrics["complete_wal_bytes"] = sum(metrics[f"{phase}_wal_bytes"] for phase in _PHASES)
        metrics["rows_per_s"] = rows / metrics["load_s"]
        metrics["finished_rows_per_s"] = rows / (metrics["load_s"] + metrics["finish_s"])
        metrics["complete_rows_per_s"] = rows / metrics["complete_s"]
        metrics["wal_bytes_per_row"] = metrics["load_wal_bytes"] / rows
        finished = metrics["load_wal_bytes"] + metrics["finish_wal_bytes"]
        metrics["finished_wal_bytes_per_row"] = finished / rows
        metrics["complete_wal_bytes_per_row"] = metrics["complete_wal_bytes"] / rows
        sessions_s = metrics["load_s"] * self._method.sessions
        metrics["client_busy"] = seen.metrics["client_cpu_s"] / sessions_s
        if "cpu_s.client_backend" in seen.metrics:
            metrics["server_busy"] = seen.metrics["cpu_s.client_backend"] / sessions_s
        others = {name: value for name, value in seen.metrics.items() if name != _DRIVER_CPU}
        return Observation({**others, **metrics}, seen.series, (*seen.warnings, *self._warnings()))

    @property
    def rows(self) -> int:
        """How many rows it loads."""
        return self._rows

    def break_off(self, settings: Mapping[str, str]) -> Observation:
        """Kill the server when half of the rows are on their way, start it again, and look at what is there.

        ``settings`` are those of the new start.

        Metrics: ``crash_rows_share`` of the rows that are in the table, ``crash_lacks``: indexes, constraints
        and triggers that the table no longer has or that are off, and 1 more if it is unlogged."""
        interrupted = self.interrupt(self._cluster.kill)
        self._cluster.forget_postmaster()
        self._cluster.start(settings)
        rows, lacks = self.left_in(self._cluster, interrupted.table)
        return Observation({"crash_rows_share": rows / self._rows, "crash_lacks": float(lacks)})

    def interrupt(self, end: Callable[[], None]) -> BrokenOffLoad:
        """Load until half of the rows are on their way, and let ``end`` end the server."""
        with self._cluster.connect(self._loader) as session:
            table = read_table(session, self._load.table)
            about = self._around(table)
            orders = self._orders(table, about, is_broken_off=True)
            with LoadSessions(orders) as clients:
                _run(session, about.before)
                clients.go()
                clients.wait_for_half(self._patience_s)
                end()
        as_values = self._method.feed not in READY_BYTES
        acknowledged = sum(
            rows_done_at_half(order.stop - order.start, order.batch_rows, as_values=as_values)
            for order in orders
        )
        return BrokenOffLoad(table, acknowledged)

    def left_in(self, cluster: Cluster, table: LoadedTable) -> tuple[int, int]:
        """(loaded rows, parts of its definition that it lacks) of the table in a cluster after recovery.

        Reads every row. Raises ClusterError or psycopg.Error.
        """
        loader = loader_conninfo(cluster.conninfo, as_superuser=self._load.ddl_as_superuser)
        with cluster.connect(loader) as session:
            left = read_table(session, self._load.table)
            row = session.execute(reading_count(table).encode()).fetchone()
            assert row is not None
            return int(str(row[0])) - self._prepared.filled, len(_parts(table) - _parts(left))

    def _around(self, table: LoadedTable) -> Around:
        return around(table, self._method.steps, self._load.replay, self._cluster.install.version_num)

    def _orders(self, table: LoadedTable, about: Around, *, is_broken_off: bool = False) -> list[Order]:
        known = {column.name: column for column in table.columns}
        columns = [known[name] for name in self._prepared.columns]
        target = LoadTarget(
            table=table.name,
            columns=tuple(column.name for column in columns),
            types=tuple(column.type for column in columns),
            bases=tuple(column.base for column in columns),
            key=table.keys[0] if table.keys else (),
            first=about.first,
            is_frozen=about.is_frozen,
        )
        sessions = self._method.sessions
        batch_rows = self._method.batch_rows
        bounds = [self._rows * number // sessions for number in range(sessions + 1)]
        return [
            Order(
                self._loader,
                str(self._prepared.folder),
                self._method.feed,
                # A batch that holds all rows of a session is not handed out in parts, and so has no middle.
                None if is_broken_off and (batch_rows or 0) >= stop - start else batch_rows,
                start,
                stop,
                is_broken_off,
                target,
            )
            for start, stop in itertools.pairwise(bounds)
        ]

    def _watched(
        self,
        clock: _Phases,
        session: Session,
        clients: LoadSessions,
        about: Around,
        probes: Sequence[str],
    ) -> Observation:
        subject = Subject(
            conninfo=self._cluster.conninfo,
            data=self._cluster.data,
            log=self._cluster.log,
            postmaster_pid=self._cluster.pid,
            driver_pid=clients.pids[0],
            version_num=self._cluster.install.version_num,
        )
        chosen: list[tuple[str, Probe]] = [(n, PROBES[n]()) for n in _WATCHING if n in probes]
        warnings: list[str] = []
        found: dict[str, float] = {}
        series: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {}
        try:
            for name, probe in chosen:
                try:
                    probe.start(subject)
                except ProbeError as error:
                    warnings.append(f"{name}: {error.message}")
            with clock.phase("load"):
                _run(session, about.before)
                clients.go()
                loaded = clients.wait(self._patience_s)
            found["client_cpu_s"] = loaded.cpu_s
            for name, probe in reversed(chosen):
                try:
                    seen = probe.stop()
                except ProbeError as error:
                    warnings.append(f"{name}: {error.message}")
                    continue
                found.update(seen.metrics)
                series.update(seen.series)
                warnings += [f"{name}: {warning}" for warning in seen.warnings]
        finally:
            for _, probe in chosen:
                probe.abandon()
        if not self._cluster.is_running():
            raise WorkloadError(f"the server ended during the load: {self._cluster.last_complaint()}")
        return Observation(found, series, tuple(warnings))

    def _check(self, session: Session, table: LoadedTable) -> None:
        """Raises WorkloadError when the table is not what plain INSERTs would have made of it."""
        expected = self._prepared.expected[self._rows]
        found = contents_of(session, table.name, self._prepared.compared)
        if found != expected.contents:
            raise WorkloadError(
                f"{table.name} does not hold the rows that were loaded",
                detail=f"Expected {expected.contents.rows} rows with checksum {expected.contents.checksum}, "
                f"got {found.rows} with {found.checksum}.",
            )
        elsewhere = rows_elsewhere(session, table.name)
        if elsewhere != expected.elsewhere:
            raise WorkloadError(
                "other tables do not hold what triggers would have put there",
                detail=f"Rows expected: {dict(expected.elsewhere)}, got: {elsewhere}.",
            )
        lacking = _parts(table) ^ _parts(read_table(session, self._load.table))
        if lacking:
            raise WorkloadError(
                f"{table.name} is not defined as before the load",
                detail=", ".join(sorted(lacking)),
            )

    def _warnings(self) -> tuple[str, ...]:
        if not self._prepared.differing:
            return ()
        listed = ", ".join(self._prepared.differing)
        return (f"load: values of {listed} differ from load to load and were not compared",)


_PHASES = ("load", "finish", "first_read", "vacuum")


class _Phases:
    """Seconds and WAL of each phase, as metrics."""

    def __init__(self, session: Session, metrics: dict[str, float]) -> None:
        self._session = session
        self._metrics = metrics

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begun_at, began = _lsn(self._session), time.monotonic()
        yield
        self._metrics[f"{name}_s"] = time.monotonic() - began
        self._metrics[f"{name}_wal_bytes"] = float(_lsn(self._session) - begun_at)


def _run(session: Session, commands: Sequence[str]) -> None:
    """Run each statement by itself. Raises WorkloadError naming the statement."""
    for command in commands:
        try:
            session.execute(command.encode())
        except psycopg.Error as error:
            raise WorkloadError(
                error.diag.message_primary or one_line(error), detail=f"Statement: {command}"
            ) from error


def _lsn(session: Session) -> Lsn:
    row = session.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return Lsn.parse(str(row[0]))


def _table_bytes(session: Session, table: LoadedTable) -> float:
    row = session.execute(
        "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(%s::regclass)", (table.name,)
    ).fetchone()
    if row is None or row[0] is None:
        row = session.execute("SELECT pg_total_relation_size(%s::regclass)", (table.name,)).fetchone()
    assert row is not None
    return float(str(row[0]))


def _parts(table: LoadedTable) -> set[str]:
    """Everything of the definition that a step takes away and brings back."""
    definitions = [*table.key_constraints, *table.indexes, *(key.constraint for key in table.foreign_keys)]
    return (
        {f"{definition.name}: {definition.sql}" for definition in definitions}
        | {statement for definition in definitions for statement in definition.then}
        | {f"trigger {trigger.name}, enabled {trigger.enabled}" for trigger in table.triggers}
        | {statement for trigger in table.triggers for statement in trigger.then}
        | (set() if table.is_unlogged else {"WAL of its rows (it is unlogged)"})
    )
