"""What trials of load and of statements start from: a server with pgbench's tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import psycopg

from walproof.facts import Plan
from walproof.lab.pgbench_target import target_of
from walproof.lab.trial import Bench, Measured, TrialOrder
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.probe.server_settings import server_facts
from walproof.units import Lsn
from walproof.workload.pgbench import initialise, setup_description


def prepare_tables(bench: Bench) -> dict[tuple[str, str], Path]:
    """(install, workload) -> template with its tables. Raises ClusterError or WorkloadError."""
    plan, workspace = bench.plan, bench.workspace
    prepared: dict[tuple[str, str], Path] = {}
    for label, install in bench.installs.items():
        for workload in plan.workloads:
            setup = setup_description(workload)
            if not templates.is_prepared(workspace, install, plan.initdb_options, setup):
                tables = (
                    f"tables of {workload.name}"
                    if workload.setup_sql
                    else f"pgbench tables of scale {workload.scale}"
                )
                bench.progress.preparing(f"{tables} on PostgreSQL {label}")

            def load(cluster: Cluster) -> None:
                initialise(bench.pgbench, workload, target_of(cluster))  # noqa: B023 - called before the loop goes on

            prepared[(label, workload.name)] = templates.prepare_loaded(
                workspace, install, plan.initdb_options, setup, load
            )
    return prepared


def watching_settings(plan: Plan, version_num: int) -> dict[str, str]:
    """Settings that every server of a trial has so that probes see something; a study's settings take
    precedence.

    None that a variant of the study sets: its baseline would have it as well, and the two would be alike.
    ``version_num``: that of the server, as in server_version_num.
    """
    watching = {"log_checkpoints": "on"}
    if "wal" in plan.probes and version_num >= 140000:
        watching["track_wal_io_timing"] = "on"
    asked = {name for variant in plan.variants for name in plan.settings_of(variant)}
    return {name: value for name, value in watching.items() if name not in asked}


def open_server(
    bench: Bench,
    order: TrialOrder,
    cluster: Cluster,
    observing: Mapping[str, str],
    measured: Measured,
    *,
    needed: Mapping[str, str] | None = None,
) -> None:
    """Start the trial's server, with settings that only observe, and bring it to where windows begin. A
    study's settings take precedence over all but those that are ``needed``."""
    plan = bench.plan
    watching = watching_settings(plan, cluster.install.version_num)
    cluster.start({**watching, **observing, **bench.settings(order), **(needed or {})})
    settings, _ = server_facts(cluster.conninfo)
    measured.settings.update(settings)
    with cluster.connect() as connection:
        if plan.checkpoint_before:
            connection.execute("CHECKPOINT")
        measured.wal_start = insert_lsn(connection)


def insert_lsn(session: psycopg.Connection[tuple[object, ...]]) -> Lsn:
    """Where the server inserts its next record of WAL."""
    row = session.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None, "a SELECT without FROM has a row"
    return Lsn.parse(str(row[0]))
