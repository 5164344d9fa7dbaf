"""Where pgbench finds a cluster that walproof has started."""

from __future__ import annotations

from walproof.postgres.cluster import SUPERUSER, Cluster
from walproof.workload.pgbench import PgbenchTarget


def target_of(cluster: Cluster) -> PgbenchTarget:
    """The database postgres, as superuser, over the cluster's socket."""
    return PgbenchTarget(cluster.sockets, cluster.port, SUPERUSER, "postgres")
