"""Loads on real servers: one cluster takes all methods, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from walproof.facts import Install, Plan
from walproof.lab.asked import Overrides
from walproof.lab.kinds.loading.source import PreparedLoad, prepare_loads
from walproof.lab.reading import check_study
from walproof.lab.schedule import Unseen
from walproof.lab.study import resolve
from walproof.lab.trial import Bench
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.workload.loading.owner import loader_conninfo
from walproof.workload.loading.table import Session


def load_plan(
    install: Install, ddl: str, table: str, variants: Sequence[dict[str, Any]], rows: int, **load: Any
) -> Plan:
    study = check_study(
        {
            "name": "loads", "title": "?", "workload": [{"name": "rows"}], "variant": list(variants),
            "load": {"table": table, "ddl": ddl, "rows": rows, **load},
        },
        "test",
    )  # fmt: skip
    return resolve(study, Overrides(), folder=Path("/somewhere"), given=(install,))


def bench_of(plan: Plan, install: Install, workspace: Workspace) -> Bench:
    """Where loads of the plan are prepared, without pgbench."""
    return Bench(plan, workspace, {install.label: install}, Path(), {}, Unseen())


@contextmanager
def loaded_cluster(
    plan: Plan, install: Install, workspace: Workspace, settings: dict[str, str]
) -> Iterator[tuple[Cluster, PreparedLoad]]:
    """A running clone of the plan's template."""
    (prepared,) = prepare_loads(bench_of(plan, install, workspace)).values()
    folder = workspace.make_folder("loads")
    templates.clone(prepared.folder, folder, flush=False)
    cluster = Cluster(install, workspace, folder)
    cluster.start(settings)
    try:
        yield cluster, prepared
    finally:
        cluster.stop("immediate")


def connect(cluster: Cluster) -> Session:
    """As the role that loads: the superuser of a prepared cluster finds no table by its bare name."""
    return cluster.connect(loader_conninfo(cluster.conninfo, as_superuser=False))
