"""walproof advise where nobody may stream WAL: pg_walinspect tells it, and the decoder agrees on what."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.advise.told_equality import PREPARE, SETTINGS, compared, loading
from tests.cli.command import walproof
from tests.postgres.replication import run, running_primary
from tests.schemas import assert_valid
from walproof.facts import Install
from walproof.postgres.cluster import Cluster
from walproof.postgres.workspace import Workspace
from walproof.wal.recording import read_recording

pytestmark = pytest.mark.live
_LOST = {
    "times of checkpoints", "recorded.checkpoints", "recorded.agreement",
    *(f"simulated WAL, wal_compression {way}" for way in ("as recorded", "off", "pglz", "lz4", "zstd")),
}  # fmt: skip
"""What may differ: times, and what follows from contents."""

_COMPRESSED = {17: {"wal_compression": "pglz"}}


@pytest.fixture
def cluster(install: Install, workspace: Workspace) -> Iterator[Cluster]:
    settings = {**SETTINGS, **_COMPRESSED.get(install.version_num // 10000, {}), "max_wal_senders": "4",
                "log_line_prefix": "%u|", "log_statement": "all"}  # fmt: skip
    with running_primary(install, workspace, settings) as made:
        run(made, *PREPARE, "CREATE ROLE looker LOGIN", "GRANT pg_monitor TO looker")
        yield made


def _told(cluster: Cluster, folder: Path) -> None:
    """The server tells its WAL, the decoder finds the same in it, and each right that lacks is named."""
    with cluster.connect() as session:
        session.execute("GRANT pg_read_server_files TO looker")
    kept = folder / "kept"
    arguments = ("advise", f"{cluster.conninfo} user=looker", "--json", "--for")
    with loading(cluster):
        done = walproof(*arguments, "2min", "--wal-most", "4MB", "--save", str(kept), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "the WAL is not streamed" in done.stderr
    told = json.loads(done.stdout)
    assert_valid("advise", told)
    assert any("pg_walinspect told" in note and "how well images compress" in note for note in told["notes"])
    assert "WAL read" in told["dateline"]
    recording = read_recording(kept)
    assert recording.bytes > 4 << 20
    fields = compared(cluster.data / "pg_wal", kept)
    assert [str(field) for field in fields if not field.is_equal and field.field not in _LOST] == []
    # What was stored compressed tells its ratio; a mixture, as sessions of 15 write here, tells less.
    way, most = ("as recorded", 0.05) if cluster.install.version_num >= 170000 else ("off", 0.15)
    (simulated,) = (field for field in fields if field.field == f"simulated WAL, wal_compression {way}")
    assert simulated.told == pytest.approx(simulated.decoded, rel=most)

    again = walproof("advise", str(kept), "--json", cwd=folder)
    assert (again.returncode, json.loads(again.stdout)) == (0, told)
    said = re.findall(
        r"^looker\|LOG:  (?:statement|execute [^:]*):\s*(\S+)", cluster.log_text(), re.MULTILINE
    )
    assert set(said) <= {"SELECT", "SHOW", "SET"}, set(said)

    with cluster.connect() as session:
        session.execute("REVOKE pg_read_server_files FROM looker")
    done = walproof(*arguments, "1s", cwd=folder)
    assert done.returncode == 0
    assert "pg_walinspect is there, and pg_get_wal_records_info is not granted" in done.stderr
    with cluster.connect() as session:
        session.execute("DROP EXTENSION pg_walinspect")
    done = walproof(*arguments, "1s", "--platform", "azure", cwd=folder)
    assert "pg_walinspect is not in this database; statistics alone" in done.stderr
    assert any(
        "Azure" in note and "does not list pg_walinspect" in note for note in json.loads(done.stdout)["notes"]
    )


@pytest.mark.pg("== 15")
def test_the_text_of_15(cluster: Cluster, tmp_path: Path) -> None:
    _told(cluster, tmp_path)


@pytest.mark.pg("== 17")
def test_the_blocks_of_17(cluster: Cluster, tmp_path: Path) -> None:
    _told(cluster, tmp_path)
