"""Runs each script of a load alone for a short time: does it run, and what does each statement of it do?

Nothing is timed, so what else the machine does changes nothing. The tables are those that ``run``,
``compare`` and ``tune`` start from: they are made once. Scripts run in one database one after the other,
those that delete last.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from walproof.errors import ClusterError, WorkloadError
from walproof.facts import Install, Plan, Script, Workload
from walproof.facts.tried import TriedLoad, TriedScript, TriedStatement
from walproof.lab.asked import Overrides
from walproof.lab.failure import as_failure
from walproof.lab.pgbench_tables import insert_lsn, prepare_tables
from walproof.lab.pgbench_target import target_of
from walproof.lab.reading import check_study
from walproof.lab.schedule import Progress
from walproof.lab.session import opened_bench
from walproof.lab.study import resolve
from walproof.lab.trial import Bench, Measured, TrialOrder
from walproof.postgres.cluster import Cluster
from walproof.privilege.acting import acting_as
from walproof.sqltext import tokens
from walproof.units import Lsn
from walproof.wal.records import Record, records
from walproof.workload.pgbench import PgbenchRun
from walproof.workload.relay import NO_SUCH_STATEMENT, Fault, Relay, Seen, rows_of

RUNS = 100
"""How often each script runs."""
SECONDS = 10.0
"""And for how long at most."""
_PATIENCE_S = 30.0
_SETTINGS = {
    # No records but those of the scripts, and no checkpoint within one.
    "autovacuum": "off", "checkpoint_timeout": "1d", "max_wal_size": "64GB", "fsync": "off",
}  # fmt: skip
_NOT_COUNTED = ("Transaction", "Standby", "XLOG")
_UPKEEP = (("XLOG", "FPI_FOR_HINT"), ("Heap2", "PRUNE"), ("Heap2", "CLEAN"))
"""Resource managers and how operations begin; 13 calls pruning CLEAN."""
_CONTROL = ("BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE")
_COMMAND = re.compile(r"P(?:\d+)?_(\d+)")
_OTHERS = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


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


def try_load(plan: Plan, progress: Progress, seconds: float = SECONDS) -> TriedLoad:
    """Try every script of the plan's load. A script that fails is a fact; the others are tried all the same.

    Raises a WalproofError where the tables cannot be made, or the machine cannot run them.
    """
    (cell,) = plan.cells
    order, measured = TrialOrder(1, 1, *cell), Measured()
    with opened_bench(plan, progress) as bench:
        with as_failure():
            template = prepare_tables(bench)[(cell.install, cell.workload)]
        with bench.cluster(order, "tried", template, measured) as (cluster, _):
            cluster.start({**plan.settings_of(plan.variants[0]), **_SETTINGS})
            tried = _try_all(bench, cluster, plan.workloads[0], seconds)
            return TriedLoad(cluster.install.version, tried)


def _try_all(bench: Bench, cluster: Cluster, workload: Workload, seconds: float) -> tuple[TriedScript, ...]:
    found: dict[int, TriedScript] = {}
    # Two may have one name. Those that delete are last: they would leave the others nothing.
    in_order = sorted(enumerate(workload.scripts), key=lambda placed: _deletes(placed[1]))
    with cluster.connect() as session:
        ports = (bench.workspace.take_port(), cluster.port)
        with Relay(cluster.sockets, ports, cluster.user, lambda: int(insert_lsn(session))) as relay:
            for number, (place, script) in enumerate(in_order, start=1):
                bench.progress.preparing(
                    f"trying {script.name}, {number} of {len(workload.scripts)}, on PostgreSQL "
                    f"{cluster.install.version}"
                )
                session.execute("CHECKPOINT")
                start, seen = int(insert_lsn(session)), relay.begin(seconds)
                complaint = _run(bench, cluster, workload, script, ports[0])
                _end_others(session)
                relay.settle()
                # What was inserted is in the files after this.
                session.execute("SELECT pg_switch_wal()")
                found[place] = _tried(cluster, script, seen, start, complaint, seconds)
    return tuple(found[place] for place in range(len(workload.scripts)))


def _deletes(script: Script) -> bool:
    return "delete" in script.text.lower()


def _end_others(session: psycopg.Connection[tuple[object, ...]]) -> None:
    """End what a script that was cut still runs: a server notices that its client is gone when it answers."""
    deadline = time.monotonic() + _PATIENCE_S
    while session.execute(f"SELECT pg_terminate_backend(pid) {_OTHERS}".encode()).fetchall():
        if time.monotonic() > deadline:
            raise ClusterError(f"a session of the load did not end within {_PATIENCE_S:.0f} s")
        time.sleep(0.01)


def _run(bench: Bench, cluster: Cluster, workload: Workload, script: Script, port: int) -> str | None:
    """Run the script by one client. What pgbench said if it failed.

    Statements are prepared, whatever the load's protocol: then each has a name.
    """
    alone = replace(
        workload, scripts=(script,), clients=1, threads=1, duration_s=None, transactions=RUNS, rate_tps=None,
        protocol="prepared",
    )  # fmt: skip
    folder = bench.workspace.make_folder("tried-script")
    try:
        target = replace(target_of(cluster), port=port)
        load = PgbenchRun(bench.pgbench, alone, target, folder, bench.plan.seed)
        try:
            load.finish(_PATIENCE_S)
        finally:
            load.kill()
    except WorkloadError as error:
        return error.message
    finally:
        bench.workspace.remove_folder(folder)
    return None


def _tried(
    cluster: Cluster, script: Script, seen: Seen, start: int, complaint: str | None, seconds: float
) -> TriedScript:
    names = sorted(filter(_COMMAND.fullmatch, seen.texts), key=_number)
    wanted = [name for name in names if not _is_control(seen.texts[name])]
    error, failed, note = None, None, None
    if seen.faults:
        fault = _cause(seen.faults)
        error = fault.message
        failed = wanted.index(fault.name) if fault.name in wanted else None
    elif not seen.is_cut:
        error = complaint
    if seen.is_pipelined:
        note = "its statements are sent in a pipeline, and cannot be told apart"
        return TriedScript(script.name, (), error, failed, note)
    statements = _counted(cluster, [(name, seen.texts[name]) for name in wanted], seen, start)
    if seen.is_cut and not all(each.calls for each in statements):
        note = f"no run of it ended within {seconds:g} s"
    return TriedScript(script.name, statements, error, failed, note)


def _number(name: str) -> int:
    """Of a command in its script."""
    match = _COMMAND.fullmatch(name)
    assert match is not None, "only such names are sorted"
    return int(match[1])


def _cause(faults: Sequence[Fault]) -> Fault:
    """What ended the session: of a statement that could not be prepared, why it could not."""
    last = faults[-1]
    if last.code != NO_SUCH_STATEMENT:
        return last
    return next((fault for fault in faults if fault.name == last.name), last)


def _is_control(sql: str) -> bool:
    return next((each.text.upper() for each in tokens(sql) if each.kind == "word"), "") in _CONTROL


def _counted(
    cluster: Cluster, wanted: Sequence[tuple[str, str]], seen: Seen, start: int
) -> tuple[TriedStatement, ...]:
    """What each call of the wanted statements (name, SQL) did."""
    counts, upkeep, sizes = ([0] * len(seen.answers) for _ in range(3))
    ends = [answer.lsn for answer in seen.answers]
    if ends and ends[-1] > start:
        with acting_as(cluster.user):
            for record in records(cluster.data / "pg_wal", start=Lsn(start), end=Lsn(ends[-1])):
                at = bisect_right(ends, int(record.lsn))
                is_upkeep = _is_upkeep(record)
                if at < len(ends) and (is_upkeep or record.rmgr not in _NOT_COUNTED):
                    counts[at] += 1
                    upkeep[at] += is_upkeep
                    sizes[at] += record.total_length - record.image_bytes
    made = []
    for name, sql in wanted:
        calls = [at for at, answer in enumerate(seen.answers) if answer.name == name]
        rows = tuple(rows_of(seen.answers[at].tag) for at in calls)
        made.append(
            TriedStatement(sql, rows, *(tuple(each[at] for at in calls) for each in (counts, upkeep, sizes)))
        )
    return tuple(made)


def _is_upkeep(record: Record) -> bool:
    return any(record.rmgr == rmgr and record.operation.startswith(name) for rmgr, name in _UPKEEP)
