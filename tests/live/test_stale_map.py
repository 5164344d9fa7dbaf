"""Incremental backups that bring back a stale visibility map, whose harm is a wrong index-only scan.

Bits of the map that are cleared without WAL of its block are in no WAL summary, so that pg_combinebackup
takes the block from the full backup, where the bits are set.

    delete    a DELETE clears bits and registers the block of the heap alone: seen on 17.10 and 18.4, not on
              17.12 and 18.6
    truncate  VACUUM gives the end of a table back, new rows come there and are deleted: seen on 17.10, 18.4,
              18.6 and 19rc1, but not with checksums, with which there is WAL of the map's block
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest

from tests.postgres.replication import query, wait_until
from walproof.facts import Install, TrialState
from walproof.facts.kinds import BackupConditions
from walproof.lab.asked import Overrides
from walproof.lab.kinds.backup.archive import ArchiveFolder
from walproof.lab.kinds.backup.programs import combine, take_backup
from walproof.lab.kinds.backup.taking import MANIFEST
from walproof.lab.kinds.replay.recording import checksum_options
from walproof.lab.reading import check_study
from walproof.lab.schedule import Unseen
from walproof.lab.session import ready_to_run
from walproof.lab.study import resolve
from walproof.lab.trial import TrialOrder, run_trial
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import major
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as

pytestmark = [pytest.mark.live, pytest.mark.pg(">= 17", program="pg_combinebackup")]

_NUMBERS = itertools.count()
QUIET = {"fsync": "off", "autovacuum": "off"}
# 15 rows a page, in full pages: what is inserted later comes to new ones.
TABLE = (
    "CREATE TABLE t (id int, pad text)",
    "INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 2010) g",
    "CREATE INDEX t_id ON t (id)",
    "VACUUM (FREEZE) t",
)
BEFORE = {"delete": (), "truncate": ("DELETE FROM t WHERE id > 1005", "VACUUM (FREEZE, TRUNCATE off) t")}
BETWEEN = {
    "delete": ("DELETE FROM t WHERE id % 2 = 0",),
    "truncate": (
        "VACUUM (TRUNCATE on) t",
        "INSERT INTO t SELECT g, repeat('y', 500) FROM generate_series(1006, 2010) g",
        "DELETE FROM t WHERE id > 1500",
    ),
}
ROWS = {"delete": 1005, "truncate": 1500}
LAST_WRONG: dict[tuple[str, bool], dict[int, int]] = {
    ("delete", True): {17: 170010, 18: 180004},
    ("delete", False): {17: 170010, 18: 180004},
    ("truncate", True): {},
    ("truncate", False): {17: 170010, 18: 180006, 19: 190000},
}
"""Case, checksums -> the last minor of each version that was seen to be wrong (2026-11-23; 17.10 with the
programs of 17.12)."""


def _combined(
    install: Install, workspace: Workspace, case: str, options: Sequence[str], *mending: str
) -> tuple[int, int]:
    """Rows that an index-only scan and a sequential one find in what was made of a full backup and an
    incremental one; after the statements of ``mending``, for which the cluster leaves recovery."""
    number = next(_NUMBERS)
    source, restored = (
        Cluster(install, workspace, workspace.make_folder(f"{name}-{number}")) for name in ("one", "two")
    )
    backups = workspace.make_folder(f"backups-{number}")
    archive = ArchiveFolder(backups / "wal", workspace.user)
    archive.make()
    templates.clone(templates.prepare_empty(workspace, install, options), source.folder, flush=False)
    source.start({**QUIET, **archive.archiving, "summarize_wal": "on", "wal_log_hints": "off"})
    try:
        _execute(source, *TABLE, *BEFORE[case], "CHECKPOINT")
        take_backup(source, BackupConditions(), backups / "full")
        _execute(source, *BETWEEN[case])
        since = backups / "full" / MANIFEST
        take_backup(source, BackupConditions("incremental"), backups / "later", since=since)
        archive.finish(source)
    finally:
        source.stop("immediate")
    combine(install, backups / "full", backups / "later", restored.data, workspace.user)
    with acting_as(workspace.user):
        (restored.data / ("recovery.signal" if mending else "standby.signal")).touch()
    restored.start({**QUIET, **archive.restoring, "hot_standby": "on"})
    try:
        if mending:
            wait_until(lambda: query(restored, "SELECT pg_is_in_recovery()") == "False")
            _execute(restored, *mending)
        return _count(restored, "indexscan", "indexonlyscan"), _count(restored, "seqscan")
    finally:
        restored.stop("immediate")


def _execute(cluster: Cluster, *statements: str) -> None:
    with cluster.connect() as session:
        for statement in statements:
            session.execute(statement.encode())


def _count(cluster: Cluster, *ways: str) -> int:
    with cluster.connect() as session:
        for name in ("seqscan", "indexscan", "indexonlyscan", "bitmapscan"):
            session.execute(f"SET enable_{name} = {'on' if name in ways else 'off'}".encode())
        row = session.execute("SELECT count(*) FROM t WHERE id > 0").fetchone()
    assert row is not None
    return int(str(row[0]))


@pytest.mark.parametrize("has_checksums", [True, False])
@pytest.mark.parametrize("case", ["delete", "truncate"])
def test_an_index_only_scan_finds_rows_that_are_gone(
    install: Install, workspace: Workspace, case: str, has_checksums: bool
) -> None:
    """When a later minor repairs it, what is expected of it is the table's own rows."""
    by_index, in_table = _combined(install, workspace, case, checksum_options(install, has_checksums))
    assert in_table == ROWS[case]
    assert by_index == (2010 if _is_wrong(install, case, has_checksums) else ROWS[case])


@pytest.mark.parametrize("case", ["delete", pytest.param("truncate", marks=pytest.mark.long)])
def test_a_vacuum_that_skips_no_page_mends_it(install: Install, workspace: Workspace, case: str) -> None:
    """Where nothing vacuumed before: an ordinary VACUUM believes the map, and freezes the table's horizon."""
    options, mending = checksum_options(install, False), "VACUUM (DISABLE_PAGE_SKIPPING) t"
    assert _combined(install, workspace, case, options, mending) == (ROWS[case], ROWS[case])
    if not _is_wrong(install, case, has_checksums=False):
        return
    by_index, in_table = _combined(install, workspace, case, options, "VACUUM t")
    assert by_index > in_table
    if case == "truncate":
        with pytest.raises(psycopg.errors.DataCorrupted, match="from before relfrozenxid"):
            _combined(install, workspace, case, options, "VACUUM t", mending)


def _is_wrong(install: Install, case: str, has_checksums: bool) -> bool:
    last = LAST_WRONG[case, has_checksums].get(major(install), 0)
    return install.version_num <= last


def test_a_study_of_backup_finds_it(install: Install, work: Path) -> None:
    """pgbench's updates clear bits as a DELETE does."""
    study = {
        "name": "mine",
        "title": "?",
        "base": {"fsync": "off"},
        "backup": {"after": "500ms"},
        "workload": [{"name": "w", "duration": "1s"}],
        "variant": [{"name": "v", "backup": {"mode": "incremental"}}],
    }
    overrides = Overrides(rounds=1, probes=())
    plan = resolve(check_study(study, "test"), overrides, folder=work, given=(install,))
    with ready_to_run(plan, Unseen()) as trials:
        trial, _ = run_trial(trials, TrialOrder(1, 1, install.label, "w", "v"))
    if _is_wrong(install, "delete", has_checksums=install.version_num >= 180000):
        assert trial.state is TrialState.FAILED
        assert 'wrong: an index-only scan of "pgbench_accounts" finds 1' in str(trial.reason)
        assert "rows, the table has 100000: its visibility map is stale" in str(trial.reason)
    else:
        assert trial.reason is None
