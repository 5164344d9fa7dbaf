"""psql, and a server for it: what psql makes of a script is what it sends."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from walproof.facts import Install
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.privilege.user import server_user
from walproof.workload.loading.owner import apply_ddl, loader_conninfo
from walproof.workload.loading.table import Session


class Judge:
    """psql, and a server that it talks to as superuser."""

    def __init__(self, cluster: Cluster, psql: Path) -> None:
        self.cluster = cluster
        self.folder = cluster.folder
        self._psql = psql
        self._place = self.folder / "place"
        self._place.mkdir()

    def run(self, script: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        """stdout has every statement that psql sent, what it asks for, and nothing else."""
        path = self.folder / "script.sql"
        path.write_text(script, encoding="utf-8", newline="")
        return subprocess.run(
            [str(self._psql), "-Xqe", "-o", "/dev/null", "-d", self.cluster.conninfo, "-f", str(path)],
            capture_output=True, text=True, encoding="utf-8", check=False, timeout=60,
            input=typed, cwd=self._place,
        )  # fmt: skip

    def left(self) -> list[str]:
        """Names of the files that psql has made where it ran; they are removed."""
        made = list(self._place.iterdir())
        for index in made:
            index.unlink()
        return [index.name for index in made]

    def connect(self) -> Session:
        return self.cluster.connect(loader_conninfo(self.cluster.conninfo, as_superuser=False))


@contextmanager
def open_judge(install: Install, work: Path) -> Iterator[Judge]:
    with Workspace(work, server_user()) as workspace:
        home = workspace.make_folder("judge")
        templates.clone(templates.prepare_empty(workspace, install, ()), home, flush=False)
        cluster = Cluster(install, workspace, home)
        cluster.start({"fsync": "off"})
        try:
            apply_ddl(cluster.conninfo, "")
            yield Judge(cluster, Path(install.bindir) / "psql")
        finally:
            cluster.stop("immediate")
