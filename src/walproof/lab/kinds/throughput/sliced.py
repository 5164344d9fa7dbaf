"""One start of several servers, one for each variant, build or version of the load; their loads take turns.

    clone, start, CHECKPOINT?, pgbench, stop -> each: warm-up -> [ wake, guard, slice, stop ] ... -> end

All servers are up and all sessions are connected, but only one of them and its pgbench are awake; the others
are stopped (SIGSTOP), so that slices of all variants stand beside each other in time. A stopped pgbench does
not stop its clock, so there are no latencies and no offered rates. Servers are stopped with their loads,
because their walwriters and background writers, which wake a few times a second, keep the processors from
resting, and a load that the processors limit is faster for it (bench/sure/waiting_servers.py). What they do
all the same is measured in each slice of another: CPU time and bytes, of WAL and to disk."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from walproof.errors import WalproofError, WorkloadError
from walproof.facts import Cell, Slice
from walproof.lab.kinds.throughput.copies import Copies, tidy
from walproof.lab.kinds.throughput.seen import SliceSeen, stored
from walproof.lab.kinds.throughput.toggled import wait_until_connected
from walproof.lab.pgbench_tables import open_server
from walproof.lab.pgbench_target import target_of
from walproof.lab.sizes import at_once_bytes, beyond_memory
from walproof.lab.slice_order import slice_orders
from walproof.lab.trial import Bench, Measured, TrialOrder
from walproof.postgres.cluster import Cluster
from walproof.probe.checkpoints import CheckpointProbe
from walproof.probe.protocol import Subject
from walproof.probe.slices import (
    count_transactions,
    cpu_spent_s,
    read_edge,
    server_cpu_ns,
    server_written_bytes,
)
from walproof.workload.pgbench import PgbenchRun

WAITING_CPU_MOST = 0.02
"""The share of a CPU that waiting servers may take together."""
_PATIENCE_S = 60.0
WARM_S = 0.5
"""The least load of each server before the first slice, in seconds."""
_SLACK = 5
"""pgbench is given this many times the time that the slices take; it is ended when they are done."""
_DRAIN_S = 0.1
"""The longest wait for statements that were under way when their load was stopped."""
_ACTIVE = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench' AND state = 'active' "
    "AND wait_event_type IS DISTINCT FROM 'Lock'"
)
_SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench'"
_TABLES = "SELECT sum(pg_database_size(oid)) FROM pg_database"
_KINDS = ("checkpoints_timed", "checkpoints_requested", "checkpoints_immediate")


@dataclass(slots=True)
class _Server:
    """A server with its load."""

    cluster: Cluster
    connection: psycopg.Connection[tuple[object, ...]]
    load: PgbenchRun
    sessions: frozenset[int]
    """Processes of pgbench's sessions."""
    checkpoints: CheckpointProbe = field(default_factory=CheckpointProbe)
    stopped_at_lsn: int | None = None
    """Where its WAL ended when its load was last stopped."""
    idle: frozenset[int] = frozenset()
    """Its sessions while they wait for a stopped pgbench; none while a statement is still under way."""
    _suspended: ExitStack = field(default_factory=ExitStack)

    def wake(self, guard_s: float) -> int:
        """Let server and load go on. Returns the bytes of WAL that the server wrote since it was stopped."""
        self.resume()
        waited = read_edge(self.connection).lsn - (self.stopped_at_lsn or 0) if self.stopped_at_lsn else 0
        self.idle = frozenset()
        self.load.resume()
        time.sleep(guard_s)
        return waited

    def stop(self) -> None:
        """Stop the load and, when no statement of it is under way, the server. Raises WorkloadError."""
        self.load.pause()
        deadline = time.monotonic() + _DRAIN_S
        while is_active := int(str((self.connection.execute(_ACTIVE).fetchone() or (0,))[0])) > 0:
            if time.monotonic() > deadline:
                break
            time.sleep(0.001)
        self.idle = frozenset() if is_active else self.sessions
        self.stopped_at_lsn = read_edge(self.connection).lsn
        self._suspended.enter_context(self.cluster.suspended())

    def resume(self) -> None:
        """Let the server go on, without its load."""
        self._suspended.close()

    def leave(self, *, to_keep: bool) -> None:
        """End the load. ``to_keep``: the server, too, in good order, because its data directory is to be used
        again. Raises WorkloadError."""
        self.load.end()
        self.load.finish(_PATIENCE_S)
        if to_keep:
            tidy(self.connection)
            self.connection.close()
            self.cluster.stop("fast")


@dataclass(frozen=True, slots=True)
class _Turn:
    """A slice, and what went on at the same time."""

    slice: SliceSeen
    waiting_cpu_s: float
    """CPU of all other servers."""
    waiting_wal_bytes: int
    """WAL of this server since its previous slice."""
    waiting_written_bytes: int
    """Bytes written to disk by all other servers."""


def take_turns(
    bench: Bench,
    order: TrialOrder,
    tables: Mapping[tuple[str, str], Path],
    measured: Measured,
    copies: Copies,
) -> None:
    """Start the servers, load them in turns, and note the slices.

    ``tables``: (install, workload) -> template. Where the load is pgbench's own, data directories come from
    ``copies`` and go back.

    Raises WorkloadError, ProbeError or ClusterError.
    """
    plan, slicing = bench.plan, bench.plan.slicing
    assert slicing is not None, "the plan slices"
    of_server = {
        name: replace(order, install=cell.install, workload=cell.workload, variant=cell.variant)
        for name, cell in plan.shared_cells(Cell(order.install, order.workload, order.variant)).items()
    }
    loads = [bench.workload(own) for own in of_server.values()]
    reused = copies if all(load.is_pgbenchs_own for load in loads) else None
    orders = slice_orders(plan.turns, slicing.passes, f"{plan.seed}/{order.round}")
    with ExitStack() as stack:
        servers: dict[str, _Server] = {}
        # In another order each time, because the first server gets its files and its memory first.
        for name in orders[0]:
            own = of_server[name]
            template = tables[(own.install, own.workload)]
            # What is stored of a start's settings is its own cell's, the baseline's.
            noted = measured if own == order else Measured()
            number = plan.turns.index(name) + 1
            servers[name] = _opened(bench, own, number, template, measured, noted, stack, reused)
        try:
            warm_s = max(WARM_S, *(load.warmup_s for load in loads))
            for name in orders[0]:
                servers[name].wake(warm_s)
                servers[name].stop()
            turns = [
                _turn(servers, name, number, place, slicing.slice_s, slicing.guard_s)
                for number, pass_order in enumerate(orders, 1)
                for place, name in enumerate(pass_order, 1)
            ]
            for server in servers.values():
                server.resume()
            tables_bytes = sum(_tables_bytes(server.connection) for server in servers.values())
            for kind in _KINDS:
                measured.metrics[kind] = 0.0
            for server in servers.values():
                found = server.checkpoints.stop().metrics
                for kind in _KINDS:
                    measured.metrics[kind] += found.get(kind, 0.0)
            # All at once: nothing is measured any more, and one after the other takes as long as the slices.
            with ThreadPoolExecutor(len(servers)) as threads:
                list(threads.map(lambda server: server.leave(to_keep=reused is not None), servers.values()))
            measured.slices, failed = _counted([turn.slice for turn in turns], servers)
            measured.metrics["failed_transactions"] = float(failed)
        except (WalproofError, psycopg.Error):
            broken = [checked.cluster for checked in servers.values() if not checked.cluster.is_running()]
            measured.log = measured.log or (broken[0].log_tail() if broken else None)
            raise
    _note(measured, turns, warm_s + slicing.guard_s, has_checkpoint=bench.plan.checkpoint_before)
    if (too_large := beyond_memory(len(servers), at_once_bytes(plan), tables_bytes)) is not None:
        measured.warnings.append(
            f"{too_large}: what a server alone finds in memory, these read from the disk (--design fresh)"
        )


def _tables_bytes(connection: psycopg.Connection[tuple[object, ...]]) -> int:
    return int(str((connection.execute(_TABLES).fetchone() or (0,))[0]))


def _opened(
    bench: Bench,
    order: TrialOrder,
    number: int,
    template: Path,
    measured: Measured,
    noted: Measured,
    stack: ExitStack,
    reused: Copies | None,
) -> _Server:
    """The server of that number with its load connected and stopped; the stack ends both."""
    cluster, _ = stack.enter_context(
        bench.cluster(order, f"trial-{order.number}-{number}", template, measured, copies=reused)
    )
    open_server(bench, order, cluster, {}, noted)
    slicing, workload = bench.plan.slicing, bench.workload(order)
    assert slicing is not None
    servers = len(bench.plan.turns)
    longest_s = _SLACK * (slicing.start_s(servers) + servers * workload.warmup_s) + _PATIENCE_S
    endless = replace(workload, duration_s=longest_s, transactions=None)
    connection = stack.enter_context(cluster.connect())
    load = PgbenchRun(bench.pgbench, endless, target_of(cluster), cluster.folder, seed=bench.seed(order))
    stack.callback(load.kill)
    wait_until_connected(connection, load, workload.clients)
    sessions = frozenset(int(str(pid)) for (pid,) in connection.execute(_SESSIONS))
    server = _Server(cluster, connection, load, sessions)
    stack.callback(server.checkpoints.abandon)
    stack.callback(server.resume)
    server.checkpoints.start(
        Subject(
            conninfo=cluster.conninfo,
            data=cluster.data,
            log=cluster.log,
            postmaster_pid=cluster.pid,
            driver_pid=load.pid,
            version_num=cluster.install.version_num,
        )
    )
    server.stop()
    return server


def _turn(
    servers: Mapping[str, _Server], name: str, number: int, place: int, slice_s: float, guard_s: float
) -> _Turn:
    server = servers[name]
    # Hundreds of idle sessions are not asked in each slice: to read of them takes longer than a short slice.
    others = [(other.cluster.pid, other.idle) for other in servers.values() if other is not server]
    waited_wal = server.wake(guard_s)
    waiting = [server_cpu_ns(*other) for other in others]
    written = [server_written_bytes(*other) for other in others]
    cpu = server_cpu_ns(server.cluster.pid)
    begin = read_edge(server.connection)
    time.sleep(max(0.0, begin.at + slice_s - time.time()))
    end = read_edge(server.connection)
    spent_s = cpu_spent_s(cpu, server_cpu_ns(server.cluster.pid))
    used = [cpu_spent_s(before, server_cpu_ns(*other)) for other, before in zip(others, waiting, strict=True)]
    wrote = [
        _grown(before, server_written_bytes(*other)) for other, before in zip(others, written, strict=True)
    ]
    if server.load.poll():
        server.load.finish(_PATIENCE_S)  # says why, where pgbench does
        raise WorkloadError(f"pgbench of {name} ended before the slices did")
    server.stop()
    seen = SliceSeen(number, place, name, begin, end, spent_s)
    return _Turn(seen, sum(cpu_s or 0.0 for cpu_s in used), waited_wal, sum(wrote))


def _grown(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    return sum(value - before.get(pid, 0) for pid, value in after.items())


def _counted(seen: Sequence[SliceSeen], servers: Mapping[str, _Server]) -> tuple[tuple[Slice, ...], int]:
    """Slices without latencies, because those of a stopped load include the time for which it was stopped;
    and how many transactions failed in all of them."""
    counts = {
        name: iter(
            count_transactions(
                server.load.logs, [(span.begin.at, span.end.at) for span in seen if span.variant == name]
            )
        )
        for name, server in servers.items()
    }
    counted = [next(counts[span.variant]) for span in seen]
    return stored(seen, counted, has_latencies=False), sum(found.failed for found in counted)


def _note(measured: Measured, turns: Sequence[_Turn], loaded_s: float, *, has_checkpoint: bool) -> None:
    """Metrics of the start as a whole."""
    seen = [turn.slice for turn in turns]
    measured.window_start = seen[0].begin.at
    measured.window_s = seen[-1].end.at - seen[0].begin.at
    length_s = sum(span.length_s for span in seen)
    transactions = sum(counted.transactions for counted in measured.slices)
    measured.metrics |= {
        "tps": transactions / length_s,
        "transactions": float(transactions),
        "waiting_cpu_share": sum(turn.waiting_cpu_s for turn in turns) / length_s,
        "waiting_cpu_share_max": max(turn.waiting_cpu_s / turn.slice.length_s for turn in turns),
        "waiting_wal_bytes": float(sum(turn.waiting_wal_bytes for turn in turns)),
        "waiting_written_bytes": float(sum(turn.waiting_written_bytes for turn in turns)),
    }
    if has_checkpoint:
        measured.metrics["since_checkpoint_s"] = loaded_s
    if measured.metrics["waiting_cpu_share"] > WAITING_CPU_MOST:
        measured.warnings.append(
            f"servers that waited took more than {100 * WAITING_CPU_MOST:g} % of a CPU from the one that "
            "was loaded"
        )
