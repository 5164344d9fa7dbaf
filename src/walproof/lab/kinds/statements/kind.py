"""A study of statements, live: each statement is measured by itself on a quiet server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from walproof.errors import StudyError
from walproof.facts import Statements
from walproof.lab.asked import Asked
from walproof.lab.kind import LabKind
from walproof.lab.pgbench_tables import open_server, prepare_tables
from walproof.lab.studyfile import StudyFile
from walproof.lab.trial import Bench, Measured, TrialOrder, Trials
from walproof.postgres.build import has_library
from walproof.postgres.cluster import Cluster
from walproof.probe.statements import StatementCounter

_STATEMENTS = "pg_stat_statements"
_LIBRARIES = "shared_preload_libraries"


def with_library(listed: str, name: str) -> str:
    """A list of libraries, with that one among them."""
    if name in [each.strip().strip('"') for each in listed.split(",")]:
        return listed
    return f"{listed}, {name}" if listed.strip() else name


class StatementsLab(LabKind[Statements]):
    """Each trial runs statements one by one."""

    kind = Statements
    moves_wal = True

    def sign(self, study: StudyFile) -> str | None:
        """A workload that has one."""
        has_any = any(workload.statement for workload in study.workload)
        return "[[workload.statement]]" if has_any else None

    def resolve(self, asked: Asked) -> Statements:
        """The kind, if every workload has statements."""
        for workload in asked.study.workload:
            if not workload.statement:
                raise StudyError(
                    f'workload "{workload.name}" of a study of statements has none',
                    hint="A load is measured in a study of its own.",
                )
        asked.refuse_lengths(Statements.noun, "Each statement is measured by itself.")
        return Statements()

    def prepare(self, bench: Bench) -> Trials:
        """pgbench's tables."""
        return _Trials(bench, prepare_tables(bench))


@dataclass(frozen=True, slots=True)
class _Trials(Trials):
    bench: Bench
    tables: Mapping[tuple[str, str], Path]

    def run(self, order: TrialOrder, measured: Measured) -> None:
        template = self.tables[(order.install, order.workload)]
        with self.bench.cluster(order, f"trial-{order.number}", template, measured) as (cluster, _):
            counts = has_library(cluster.install, _STATEMENTS)
            own = self.bench.settings(order).get(_LIBRARIES, "")
            needed = {_LIBRARIES: with_library(own, _STATEMENTS)} if counts else {}
            open_server(self.bench, order, cluster, {}, measured, needed=needed)
            self._count(order, cluster, measured)

    def _count(self, order: TrialOrder, cluster: Cluster, measured: Measured) -> None:
        """Each statement by itself, and the sum of each method over all of them."""
        statements = self.bench.workload(order).statements
        opened_at = time.time()
        with StatementCounter(cluster.conninfo, cluster.data / "pg_wal") as counter:
            for statement in statements:
                measured.metrics.update(counter.measure(statement))
        measured.window_start, measured.window_s = opened_at, time.time() - opened_at
        # A method has a sum only if it counted every statement.
        found: dict[str, list[float]] = {}
        for name, value in measured.metrics.items():
            quantity, _, which = name.partition(".")
            if "|" not in which:
                found.setdefault(quantity, []).append(value)
        measured.metrics.update(
            {name: sum(values) for name, values in found.items() if len(values) == len(statements)}
        )
