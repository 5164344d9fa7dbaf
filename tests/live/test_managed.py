"""Servers of managed platforms, imitated: what they refuse costs no more than itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.live.managed import hide_positions, name_settings
from tests.postgres.replication import run, running_primary
from tests.schemas import assert_valid
from walproof.facts import Install
from walproof.observe.looking import Looker
from walproof.observe.server import ServerObserver
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace

pytestmark = [pytest.mark.live, pytest.mark.pg(ends=True)]


@pytest.fixture
def cluster(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    with running_primary(install, workspace, {"max_wal_size": "64MB", "min_wal_size": "32MB"}) as made:
        run(made, "CREATE ROLE looker LOGIN", "GRANT pg_monitor TO looker")
        yield made


def test_a_server_that_hides_its_position_is_watched_and_advised(cluster: Cluster, tmp_path: Path) -> None:
    hide_positions(cluster)
    with cluster.connect() as session:
        session.execute("SELECT pg_create_physical_replication_slot('idle', true)")
    server = f"{cluster.conninfo} user=looker"
    checked = walproof("watch", server, "--check", "--no-stream", "--every", "0.5s", cwd=tmp_path)
    assert checked.stdout.startswith("WALPROOF OK"), checked.stdout
    assert checked.returncode == 0
    once = walproof("watch", server, "--once", "--no-stream", "--json", "--every", "0.5s", cwd=tmp_path)
    assert once.returncode == 0, once.stderr
    assert json.loads(once.stdout.splitlines()[-1])["lsn"] is None

    # What is refused for good is not asked for at every look: each refusal is an ERROR in the server's log.
    began = len(cluster.log_text())
    walproof("watch", server, "--plain", "--no-stream", "--every", "0.5s", "--for", "4s", cwd=tmp_path)
    assert 1 <= cluster.log_text()[began:].count("wal_level must be set") <= 2

    done = walproof("advise", server, "--for", "1s", "--json", "--platform", "aurora", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    unseen = {rule["rule"]: rule["reason"] for rule in told["unseen"]}
    assert "pending" not in unseen
    assert "no pg_stat_wal" not in unseen.get("wal_buffers", "")
    assert "slots" in {advice["rule"] for advice in told["advice"]}
    lacks = "\n".join(told["notes"])
    assert "Could not be read: the position in the WAL: wal_level must be set" in lacks
    assert "Could not be read: slots: how much they hold is not known" in lacks


@pytest.mark.parametrize(
    ("names", "title", "line"),
    [
        (["rds.extensions", "rds.logical_replication"], "Amazon RDS", "aws rds modify-db-parameter-group "),
        (["rds.extensions", "apg_ccm_enabled"], "Amazon Aurora", None),
        (["neon.pageserver_connstring"], "Neon", "log_checkpoints: on"),
    ],
)
def test_a_platform_is_recognised_and_its_lines_are_written(
    cluster: Cluster, tmp_path: Path, names: list[str], title: str, line: str | None
) -> None:
    name_settings(cluster, names)
    with cluster.connect() as session:
        session.execute("CREATE UNLOGGED TABLE u AS SELECT generate_series(1, 1000) AS i")
    cluster.reload({"max_wal_size": "64MB", "min_wal_size": "32MB", "log_checkpoints": "off"})
    kept = tmp_path / "kept"
    server = f"{cluster.conninfo} user=looker"
    done = walproof("advise", server, "--for", "1s", "--save", str(kept), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Recognised as {title} by " in done.stdout
    assert "ALTER SYSTEM" not in done.stdout
    assert line is None or line in done.stdout
    # Unlogged tables of Aurora survive a crash.
    assert ("A crash empties public.u" in done.stdout) is (title != "Amazon Aurora")
    # What is kept tells it, too.
    told = json.loads(walproof("advise", str(kept), "--platform", "conf", "--json", cwd=tmp_path).stdout)
    assert_valid("advise", told)
    assert f"the server looks like {title}, by " in told["platform_reason"]
    assert told["platform"] == "conf"


def test_what_only_a_file_names_is_recognised(cluster: Cluster) -> None:
    """CloudNativePG's mark is no setting that the server knows, so pg_settings does not have it."""
    cluster.reload({"cnpg.config_sha256": "0"})
    with cluster.connect() as session:
        session.execute("SELECT pg_sleep(0.3)")
    with ServerObserver(f"{cluster.conninfo} user=looker") as observer:
        window = observer.window()
    assert window.marks == ("cnpg.config_sha256",)
    with cluster.connect() as session:
        session.execute("CREATE ROLE supabase_admin")
        look = Looker(session).look()
    assert look.marks == ("cnpg.config_sha256", "role supabase_admin")
