"""Runs each script of a load alone for a short time: does it run, and what does each statement of it do?

Nothing is timed, so what else the machine does changes nothing. The tables are those that ``run``,
``compare`` and ``tune`` start from: they are made once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from walproof.errors import WorkloadError
from walproof.facts import Install, Plan, Script, Workload
from walproof.facts.tried import TriedLoad, TriedScript, TriedStatement
from walproof.lab.asked import Overrides
from walproof.lab.pgbench_tables import prepare_tables
from walproof.lab.pgbench_target import target_of
from walproof.lab.reading import check_study
from walproof.lab.schedule import Progress
from walproof.lab.session import opened_bench
from walproof.lab.study import resolve
from walproof.lab.trial import Bench, Measured, TrialOrder
from walproof.postgres.cluster import Cluster
from walproof.privilege.acting import acting_as
from walproof.units import Lsn
from walproof.wal.records import records
from walproof.workload.loading.ddl import statements
from walproof.workload.pgbench import PgbenchRun
from walproof.workload.relay import Answer, Relay, rows_of

RUNS = 100
"""How often each script runs."""
_SECONDS = 10.0
"""And for how long at most."""
_PATIENCE_S = 30.0
_SETTINGS = {
    # No record but those of the scripts, and no checkpoint.
    "autovacuum": "off", "checkpoint_timeout": "1d", "max_wal_size": "64GB", "fsync": "off",
}  # fmt: skip
_NOT_COUNTED = ("Transaction", "Standby", "XLOG")
_PRUNES = ("PRUNE", "CLEAN")
"""Operations; the latter is what 13 calls it."""
_CONTROL = ("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE")
_DECIDES = ("\\if", "\\startpipeline", "\\;")
"""Where a script has one of these, an answer does not tell which of its statements it belongs to."""


def plan_of(tables: Mapping[str, Any], scripts: Path, install: Install, folder: Path) -> Plan:
    """The plan of a try: the load's tables on one install, nothing else. ``scripts``: their folder.

    Raises StudyError, SettingError.
    """
    data = {
        **{key: value for key, value in tables.items() if key != "pg"},
        "name": "try",
        "title": "Does the load run, and what does it do?",
        "variant": [{"name": "default"}],
        "design": {"design": "fresh", "rounds": 1, "probes": []},
    }
    return resolve(check_study(data, "try"), Overrides(), folder=folder, scripts=scripts, given=[install])


def try_load(plan: Plan, progress: Progress) -> TriedLoad:
    """Try every script of the plan's load. A script that fails is a fact; the others are tried all the same.

    Raises a WalproofError where the tables cannot be made, or the machine cannot run them.
    """
    (cell,) = plan.cells
    order, measured = TrialOrder(1, 1, *cell), Measured()
    with opened_bench(plan, progress) as bench:
        template = prepare_tables(bench)[(cell.install, cell.workload)]
        with bench.cluster(order, "tried", template, measured) as (cluster, _):
            cluster.start({**plan.settings_of(plan.variants[0]), **_SETTINGS})
            return TriedLoad(cluster.install.version, tuple(_try_all(bench, cluster, plan.workloads[0])))


def _try_all(bench: Bench, cluster: Cluster, workload: Workload) -> Iterator[TriedScript]:
    with cluster.connect() as session:
        session.execute("CHECKPOINT")
        ports = (bench.workspace.take_port(), cluster.port)
        with Relay(cluster.sockets, ports, cluster.user, lambda: _position(session)) as relay:
            for number, script in enumerate(workload.scripts, start=1):
                bench.progress.preparing(
                    f"trying {script.name}, {number} of {len(workload.scripts)}, alone on PostgreSQL "
                    f"{cluster.install.version}"
                )
                start = _position(session)
                complaint = _run(bench, cluster, workload, script, relay, ports[0])
                relay.check()
                # What was inserted is in the files after this.
                session.execute("SELECT pg_switch_wal()")
                yield _tried(cluster, script, relay, start, complaint)


def _position(session: psycopg.Connection[tuple[object, ...]]) -> int:
    row = session.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None, "a SELECT without FROM has a row"
    return int(Lsn.parse(str(row[0])))


def _run(
    bench: Bench, cluster: Cluster, workload: Workload, script: Script, relay: Relay, port: int
) -> str | None:
    """Run the script by one client. What pgbench said if it failed."""
    alone = replace(
        workload, scripts=(script,), clients=1, threads=1, duration_s=None, transactions=RUNS, rate_tps=None
    )
    folder = bench.workspace.make_folder("tried-script")
    relay.begin(_SECONDS)
    try:
        load = PgbenchRun(
            bench.pgbench, alone, replace(target_of(cluster), port=port), folder, bench.plan.seed
        )
        try:
            load.finish(_PATIENCE_S)
        finally:
            load.kill()
    except WorkloadError as error:
        return error.message
    finally:
        bench.workspace.remove_folder(folder)
    return None


def _tried(cluster: Cluster, script: Script, relay: Relay, start: int, complaint: str | None) -> TriedScript:
    texts = [each.sql for each in statements(script.text)]
    changing = [not _is_control(text) for text in texts]
    wanted = [text for text, counts in zip(texts, changing, strict=True) if counts]
    error, failed = None if relay.is_cut else complaint, None
    if relay.faults and texts:
        # Statements are prepared before any of them runs: the first that was said is what failed then.
        error = relay.faults[0].message
        place = relay.faults[-1].after % len(texts)
        failed = sum(changing[:place]) if changing[place] else None
    if any(word in script.text for word in _DECIDES):
        return TriedScript(script.name, (), error, None, relay.is_cut)
    counted = tuple(_counted(cluster, wanted, changing, relay.answers, start))
    return TriedScript(script.name, counted, error, failed, relay.is_cut)


def _is_control(sql: str) -> bool:
    return sql.lstrip().upper().rstrip(";").split(maxsplit=1)[0] in _CONTROL


def _counted(
    cluster: Cluster,
    wanted: Sequence[str],
    changing: Sequence[bool],
    answers: Sequence[Answer],
    start: int,
) -> Iterator[TriedStatement]:
    """The statements with what each call did. ``answers`` are those of all commands, BEGIN included."""
    counts, prunes, sizes = ([0] * len(answers) for _ in range(3))
    ends = [answer.lsn for answer in answers]
    if ends and ends[-1] > start:
        with acting_as(cluster.user):
            for record in records(cluster.data / "pg_wal", start=Lsn(start), end=Lsn(ends[-1])):
                at = bisect_right(ends, int(record.lsn))
                if record.rmgr not in _NOT_COUNTED and at < len(ends):
                    counts[at] += 1
                    prunes[at] += record.rmgr == "Heap2" and record.operation.startswith(_PRUNES)
                    sizes[at] += record.total_length - record.image_bytes
    places = [place for place, counts_it in enumerate(changing) if counts_it]
    for sql, place in zip(wanted, places, strict=True):
        calls = range(place, len(answers), len(changing))
        yield TriedStatement(
            sql,
            tuple(rows_of(answers[call].tag) for call in calls),
            tuple(counts[call] for call in calls),
            tuple(prunes[call] for call in calls),
            tuple(sizes[call] for call in calls),
        )
