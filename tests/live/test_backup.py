"""Base backups of real servers, restored to a moment; a wrong restore does not pass for a right one."""

from __future__ import annotations

import dataclasses
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import walproof
from tests.postgres.installs import put_install
from tests.schemas import assert_valid
from walproof.disk.checksums import DamagedPage
from walproof.errors import ClusterError, SettingError, StudyError, WorkloadError
from walproof.facts import Install, Plan, Trial, TrialState
from walproof.facts.kinds import Backup, BackupConditions
from walproof.lab.asked import Overrides
from walproof.lab.kinds.backup import archive as archives
from walproof.lab.kinds.backup import programs, restoring, taking
from walproof.lab.kinds.backup.archive import ArchiveFolder
from walproof.lab.kinds.backup.kind import BackupTrials
from walproof.lab.kinds.backup.load import BackupLoad
from walproof.lab.preflight import check, estimate
from walproof.lab.reading import check_study
from walproof.lab.schedule import Unseen
from walproof.lab.session import ready_to_run
from walproof.lab.study import read_study, resolve
from walproof.lab.trial import Measured, TrialOrder, run_trial
from walproof.postgres import template as templates
from walproof.postgres.cluster import Cluster
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_install
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.user import server_user
from walproof.units import Lsn
from walproof.workload.ledger import SESSIONS_MOST, Commit, Record

pytestmark = pytest.mark.live

# The machine's disk is no part of it, and makes a busy one slow.
STUDY: dict[str, Any] = {
    "name": "mine",
    "title": "?",
    "base": {"fsync": "off"},
    "workload": [{"name": "w", "clients": 2, "duration": "1s"}],
    "backup": {"after": "500ms"},
    "variant": [{"name": "full"}],
}
MIB = 1 << 20


def _plan(install: Install, folder: Path, *variants: dict[str, Any], **changes: Any) -> Plan:
    study = {**STUDY, "variant": list(variants) or STUDY["variant"], **changes}
    overrides = Overrides(rounds=1, probes=())
    return resolve(check_study(study, "test"), overrides, folder=folder, given=(install,))


def _run(plan: Plan) -> dict[str, Trial]:
    """Variant -> its trial, each of which ended well."""
    found = {}
    with ready_to_run(plan, Unseen()) as trials:
        for number, variant in enumerate(plan.variants, start=1):
            order = TrialOrder(number, 1, plan.installs[0].label, "w", variant.name)
            found[variant.name], _ = run_trial(trials, order)
        assert isinstance(trials, BackupTrials)
        assert not [path.name for path in trials.bench.workspace.folder.iterdir()]
    assert found
    assert [(t.reason, t.server_log) for t in found.values() if t.state is not TrialState.DONE] == []
    return found


@pytest.mark.pg(program="pg_basebackup", newest=True)
def test_full_backups_are_restored_to_the_moment(install: Install, work: Path) -> None:
    variants: list[dict[str, Any]] = [{"name": "full"}, {"name": "packed", "backup": {"compress": "gzip"}}]
    # Versions differ in how backups are taken; ways to pause and to write WAL are seen in the newest alone.
    if install.version_num >= 180000:
        paused = {"load": False, "checkpoint": "spread", "rate": "512MB/s"}
        variants += [{"name": "paused", "backup": paused}]
        variants += [{"name": "compressed WAL", "settings": {"wal_compression": "on"}}]
    base = {"fsync": "off", "checkpoint_timeout": "30s", "checkpoint_completion_target": 0.01}
    plan = _plan(install, work, *variants, base=base)
    trials = _run(plan)
    for name, trial in trials.items():
        seen = trial.metrics
        assert seen["restored_commits"] > 0, name
        assert seen["back_s"] == pytest.approx(seen["restore_s"] + seen["recover_s"])
        assert 0 < seen["backup_needed_wal_bytes"] <= seen["replayed_wal_bytes"]
        assert seen["backup_archived_wal_bytes"] % (16 * MIB) < 1000, "segments, and the label of a backup"
        assert trial.settings["archive_mode"] == "on"
        assert ("backup_tps" in seen) is (name != "paused")
        assert seen["before_tps"] > 0
        assert "combine_s" not in seen
        assert trial.window_s is not None
        assert trial.window_s > 1.0
    size = trials["full"].metrics["backup_bytes"]
    assert size > 30 * MIB
    assert trials["packed"].metrics["backup_bytes"] < 0.5 * size


@pytest.mark.pg(">= 17", program="pg_combinebackup")
def test_incremental_backups_are_combined(install: Install, work: Path) -> None:
    variants = [
        {"name": "incremental", "backup": {"mode": "incremental"}},
        {"name": "packed", "backup": {"mode": "incremental", "compress": "server gzip", "load": False}},
    ]
    # No updates and no vacuum: with them 18.4 makes such backups wrong (tests/live/test_stale_map.py).
    workload = [{"name": "w", "builtin": "select-only", "duration": "1s"}]
    base = {"fsync": "off", "autovacuum": "off"}
    for name, trial in _run(_plan(install, work, *variants, workload=workload, base=base)).items():
        seen = trial.metrics
        assert seen["restored_commits"] > 0
        assert seen["backup_bytes"] < seen["full_backup_bytes"]
        assert seen["wal_summary_bytes"] > 0
        assert seen["combine_s"] > 0
        assert (seen["restore_s"] > 0) is (name == "packed")
        assert seen["back_s"] == pytest.approx(seen["restore_s"] + seen["combine_s"] + seen["recover_s"])
        assert trial.settings["summarize_wal"] == "on"


@dataclass
class Case:
    """A backup that was taken, and what restores it."""

    trials: BackupTrials
    order: TrialOrder
    taken: taking.Taken
    folder: Path
    archive: ArchiveFolder

    def restore(self, name: str, **moment: Any) -> Measured:
        """Restore it into a new folder, to that moment or to another."""
        measured = Measured()
        folder = self.trials.bench.workspace.make_folder(name)
        taken = replace(self.taken, moment=replace(self.taken.moment, **moment))
        try:
            restoring.restore(self.trials.bench, self.order, taken, folder, self.archive, measured)
        finally:
            self.log = measured.log
        return measured


@contextmanager
def _taken(install: Install, work: Path, **options: Any) -> Iterator[Case]:
    plan = _plan(install, work, {"name": "full", "backup": options})
    order = TrialOrder(1, 1, install.label, "w", "full")
    with ready_to_run(plan, Unseen()) as trials:
        assert isinstance(trials, BackupTrials)
        bench = trials.bench
        folder = bench.workspace.make_folder("backup")
        (archive := ArchiveFolder(folder / "it's 100% WAL", bench.workspace.user)).make()
        with bench.cluster(order, "trial", trials.tables[(install.label, "w")], Measured()) as (cluster, _):
            taken = taking.take(bench, order, cluster, folder, archive, Measured())
        yield Case(trials, order, taken, folder, archive)


@pytest.mark.long
def test_a_wrong_restore_is_found(embedded: Install, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle of the check: the same backup restored right, too early, too late, and from less."""
    with _taken(embedded, work) as case:
        user, known = case.archive.user, case.taken.moment.known
        right = case.restore("right")
        can_verify = (
            programs.lack_of_program(case.trials.bench.install(case.order), "pg_verifybackup") is None
        )
        assert ("verify_s" in right.metrics) is can_verify
        assert [note for note in right.warnings if "not compared with its manifest" not in note] == []
        assert (right.warnings == []) is can_verify
        acknowledged = [commit for commits in known for commit in commits if commit.ended_ns is not None]
        assert right.metrics["restored_commits"] == len(acknowledged)

        # Each commit's time is after its begin: restored to 20 ms before that (clocks are set), it is gone.
        last = max(acknowledged, key=lambda commit: commit.began_ns)
        epoch_ns = time.time_ns() - time.monotonic_ns() - 20_000_000
        began = datetime.fromtimestamp((epoch_ns + last.began_ns) / 1e9, UTC)
        with pytest.raises(WorkloadError, match=r"restored cluster is wrong: .* is gone|before .* are gone"):
            case.restore("too-early", at=began.isoformat(" "))
        assert case.log is not None
        assert "recovery stopping before commit" in case.log

        # To somebody whose moment is that, what is there now has never been committed.
        earlier = tuple(tuple(c for c in commits if c.began_ns < last.began_ns) for commits in known)
        with pytest.raises(WorkloadError, match=r"the restored cluster is wrong: .* were never committed"):
            case.restore("too-late", known=earlier)

        for fork, says in (("main", "the restored cluster is wrong: checksum of block 3"), ("fsm", None)):
            found = (DamagedPage("base/5/16384", fork, 3),)  # type: ignore[arg-type]
            monkeypatch.setattr(restoring, "damaged_pages", lambda _data, found=found: found)
            if says is None:
                assert "checksum of block 3" in case.restore(f"damaged-{fork}").warnings[-1]
            else:
                with pytest.raises(WorkloadError, match=says):
                    case.restore(f"damaged-{fork}")
        monkeypatch.undo()

        monkeypatch.setattr(restoring, "_PATIENCE_S", 0.0)
        with pytest.raises(ClusterError, match="did not reach its target within 0 s"):
            case.restore("impatient")
        monkeypatch.undo()

        with monkeypatch.context() as patched:
            patched.setattr(Cluster, "stop", _stops_late)
            with pytest.raises(ClusterError, match="the restored server did not stop in time"):
                case.restore("stubborn")

        with pytest.raises(ClusterError, match="ended during recovery: recovery ended before configured"):
            case.restore("beyond", at="2126-01-01 00:00:00+00")

        with acting_as(user):
            for segment in sorted(case.archive.folder.iterdir())[1:]:
                segment.unlink()
        with pytest.raises(ClusterError, match="the restored server ended during recovery"):
            case.restore("without-wal")


@pytest.mark.pg(program="pg_basebackup", newest=True)
def test_a_damaged_backup_is_found(install: Install, work: Path) -> None:
    """By its manifest, where pg_verifybackup runs; the trial says where it does not."""
    with _taken(install, work) as case:
        with acting_as(case.archive.user), (case.taken.folder / "pg_hba.conf").open("a") as file:
            file.write("# not as it was")
        if programs.lack_of_program(install, "pg_verifybackup") is None:
            with pytest.raises(ClusterError, match=r'pg_verifybackup failed: .*"pg_hba.conf" has size'):
                case.restore("damaged")
        else:
            (warning,) = case.restore("damaged").warnings
            assert warning.startswith("backup: not compared with its manifest: ")


_stop = Cluster.stop


def _stops_late(self: Cluster, mode: str = "fast") -> bool:
    _stop(self, mode)
    return mode != "fast"


@pytest.mark.pg(">= 17", program="pg_combinebackup")
def test_an_increment_needs_its_own_full_backup(install: Install, work: Path) -> None:
    with _taken(install, work, mode="incremental") as case:
        assert case.taken.full is not None
        with acting_as(case.archive.user):
            shutil.rmtree(case.taken.full)
            shutil.copytree(case.taken.folder, case.taken.full)
        with pytest.raises(ClusterError, match="pg_combinebackup failed: "):
            case.restore("two-increments")


def test_a_program_that_fails_or_hangs_is_told(
    embedded: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(embedded, workspace, workspace.make_folder("down"))
    with pytest.raises(ClusterError, match=r"pg_basebackup failed: .*error: connection to server") as caught:
        programs.take_backup(cluster, BackupConditions(), cluster.folder / "backup")
    assert caught.value.detail is not None
    with pytest.raises(ClusterError, match="false failed: exit status 1"):
        programs.run_program(restoring._found("false"), [], workspace.user)
    monkeypatch.setattr(programs, "_LONGEST_S", 0.2)
    with pytest.raises(ClusterError, match="sleep did not end within"):
        programs.run_program(restoring._found("sleep"), ["600"], workspace.user)
    monkeypatch.setenv("PATH", str(workspace.folder))
    with pytest.raises(ClusterError, match="this machine has no cp"):
        restoring._copy(Path("/nowhere"), Path("/nowhere"), workspace.user)


def test_wal_that_is_not_archived_is_told(
    embedded: Install, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace.make_folder("cluster")
    templates.clone(templates.prepare_empty(workspace, embedded, ()), folder, flush=False)
    cluster = Cluster(embedded, workspace, folder)
    archive = ArchiveFolder(folder / "wal", workspace.user)
    cluster.start({"fsync": "off", **archive.archiving})
    try:
        archive.make()
        for _ in range(2):
            archive.finish(cluster)  # the second time, nothing has been written since
        with acting_as(workspace.user):
            shutil.rmtree(archive.folder)
        monkeypatch.setattr(archives, "_PATIENCE_S", 0.5)
        with pytest.raises(ClusterError, match="was not archived within 0 s") as caught:
            archive.finish(cluster)
        assert "archive command failed" in str(caught.value.detail)
    finally:
        cluster.stop("immediate")


def test_a_manifest_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    for text in (None, "{", "[]", '{"WAL-Ranges": []}', '{"WAL-Ranges": [{"Start-LSN": "?"}]}'):
        if text is not None:
            (tmp_path / taking.MANIFEST).write_text(text)
        with pytest.raises(ClusterError, match=r"the manifest of the backup in .* cannot be read"):
            taking._wal_range(tmp_path, None)
    ranges = [{"Timeline": 1, "Start-LSN": "0/2000028", "End-LSN": "0/2000100"}]
    (tmp_path / taking.MANIFEST).write_text(json.dumps({"WAL-Ranges": ranges}))
    assert taking._wal_range(tmp_path, None) == (Lsn(0x2000028), Lsn(0x2000100))


def _record(*commits: Commit) -> Record:
    return (commits, *((),) * (SESSIONS_MOST - 1))


def test_what_has_to_be_there_is_known_on_both_sides_of_the_moment() -> None:
    before, across, after = Commit(1, 10, 20), Commit(2, 25, 55), Commit(3, 60, 70)
    assert taking._known(_record(before, across, after), 30, 40) == _record(
        before, replace(across, ended_ns=None)
    )
    with pytest.raises(WorkloadError, match="no commit was acknowledged before the moment"):
        taking._known(_record(across, after), 30, 40)
    with pytest.raises(WorkloadError, match="no commit was acknowledged after the moment"):
        taking._known(_record(before, across, replace(after, ended_ns=None)), 30, 40)


def test_a_load_too_short_to_be_measured_is_told(embedded: Install, work: Path) -> None:
    with ready_to_run(_plan(embedded, work), Unseen()) as trials:
        assert isinstance(trials, BackupTrials)
        cluster = Cluster(embedded, trials.bench.workspace, trials.bench.workspace.make_folder("down"))
        load = BackupLoad(trials.bench, TrialOrder(1, 1, embedded.label, "w", "full"), cluster)
        with pytest.raises(WorkloadError, match="the load before the backup was too short"):
            taking._measure_load(load, taking._Span(2.0, 2.0), None, 3.0, Measured())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"workload": [{"name": "w", "transactions": 5}]}, 'workload "w" .* has transactions'),
        ({"workload": [{"name": "w", "script": [{"sql": "SELECT 1"}]}]}, 'workload "w" .* has scripts'),
        ({"base": {"wal_level": "MINIMAL"}}, "every variant has wal_level=minimal"),
        ({"variant": [{"name": "v", "settings": {"wal_level": "minimal"}}]}, 'variant "v" has wal_level=min'),
        ({"variant": [], "factors": {"wal_level": ["replica", "minimal"]}}, "a factor has wal_level=minimal"),
        ({"base": {"max_wal_senders": "0"}}, "max_wal_senders=0, and pg_basebackup"),
        ({"base": {"Archive_Command": "true"}}, "every variant sets archive_command, which is the trial's"),
        ({"base": {"recovery_target_name": "x"}}, "sets recovery_target_name, which is the trial's"),
        (
            {"base": {"summarize_wal": "no"}, "variant": [{"name": "v", "backup": {"mode": "incremental"}}]},
            'variant "v" is incremental and has summarize_wal=off',
        ),
        ({"variant": [{"name": "v", "backup": {"rate": "fast"}}]}, "mistake"),
        ({"variant": [{"name": "v", "backup": {"rate": "8MB/min"}}]}, "mistake"),
        ({"variant": [{"name": "v", "backup": {"rate": "2GB/s"}}]}, "mistake"),
        ({"variant": [{"name": "v", "backup": {"mode": "differential"}}]}, "mistake"),
        ({"backup": {"before": "1s"}}, "mistake"),
    ],
)
def test_what_makes_no_backup_is_refused(
    embedded: Install, tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    study = {**STUDY, **changes}
    with pytest.raises(StudyError, match=says):
        resolve(check_study(study, "test"), Overrides(), folder=tmp_path, given=(embedded,))


def test_what_every_study_refuses_and_an_emulated_disk(embedded: Install, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match='invalid value for parameter "wal_level"'):
        _plan(embedded, tmp_path, base={"wal_level": "much"})  # with all other settings, and not by the kind
    with pytest.raises(StudyError, match="--device has no meaning in a study of backup"):
        resolve(check_study(STUDY, "test"), Overrides(device="flush=1ms"), folder=tmp_path, given=(embedded,))


def test_conditions_are_facts(embedded: Install, tmp_path: Path) -> None:
    options = {
        "mode": "incremental", "checkpoint": "spread", "compress": "gzip", "rate": "32 MB/s", "load": False,
    }  # fmt: skip
    plan = _plan(embedded, tmp_path, {"name": "v", "backup": options})
    expected = BackupConditions("incremental", "spread", "gzip", 32 * MIB, is_loaded=False)
    assert plan.variants[0].conditions == expected
    assert plan.kind == Backup(0.5)


def test_installs_without_the_programs_are_named(
    embedded: Install, open_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put_install(open_place, "18.9")
    bare = dataclasses.replace(embedded, bindir=str(folder), label="18.9")
    full, incremental = BackupConditions(), BackupConditions("incremental")
    assert programs.lack(full, bare) == "PostgreSQL 18.9 has no pg_basebackup"
    for name, body in (("pg_basebackup", "exit 0"), ("pg_verifybackup", "kill -SEGV $$")):
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    programs._ended.cache_clear()
    assert programs.lack(incremental, bare) == "PostgreSQL 18.9 has no pg_combinebackup"
    said = programs.lack_of_program(bare, "pg_verifybackup")
    assert said == "PostgreSQL 18.9 has a pg_verifybackup that ends with status -11"
    old = dataclasses.replace(embedded, version_num=140002, label="14.2")
    assert programs.lack(full, old) is None
    assert "14.2 has no incremental backups, which exist from 17" in str(programs.lack(incremental, old))
    assert "does not compress" in str(programs.lack(BackupConditions(compress="server gzip"), old))
    monkeypatch.setenv("PATH", str(folder))
    assert "this machine has no tar" in str(programs.lack(BackupConditions(compress="gzip"), embedded))
    assert programs.lack(full, embedded) is None


def test_what_16_cannot_do_is_left_out_or_refused(tmp_path: Path) -> None:
    older = reachable_install(find("embedded-16"), server_user())
    study, _, folder = read_study("backup")
    plan = resolve(study, Overrides(quick=True), folder=tmp_path, scripts=folder, given=(older,))
    incremental = {variant.name for variant in study.variant if variant.name.startswith("incremental")}
    assert {left.variant for left in plan.left_out} == incremental
    assert all("which exist from 17" in left.reason for left in plan.left_out)
    must = _plan(older, tmp_path, {"name": "v", "backup": {"mode": "incremental"}})
    with pytest.raises(StudyError, match='study "mine" cannot run here') as refused:
        check(must)
    assert str(refused.value.detail).startswith(f"v: PostgreSQL {older.label} has no incremental backups")
    assert "make the variant optional" in str(refused.value.hint)


def test_the_disk_holds_every_copy(embedded: Install, tmp_path: Path) -> None:
    """Of a trial: the server, the backup and the restored one; of an incremental one, two backups."""

    def needed(**options: Any) -> int:
        plan = _plan(embedded, tmp_path, {"name": "v", "backup": options})
        return estimate(plan, tmp_path / "templates").disk_bytes

    copy_bytes = needed(mode="incremental") - needed()
    assert copy_bytes > 100 * MIB
    assert needed(compress="gzip") - needed() == copy_bytes
    assert needed(mode="incremental", compress="gzip") - needed() == 3 * copy_bytes
    length = estimate(_plan(embedded, tmp_path), tmp_path / "templates").length
    assert length is not None
    assert length.duration_s > length.window_s == 1.0


def test_a_study_of_backup_from_the_command_to_the_report(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ntitle = "?"\n[base]\nfsync = "off"\n[design]\nrounds = 1\nprobes = []\n'
        '[backup]\nafter = "500ms"\n[[workload]]\nname = "w"\nduration = "1s"\n'
        '[[variant]]\nname = "full"\n[[variant]]\nname = "rate"\nbackup = { rate = "512MB/s" }\n'
    )
    command = ("run", "mine.toml", "--pg", "embedded", "--out", "out")
    planned = walproof(*command, "--dry-run", cwd=tmp_path)
    assert (planned.returncode, "rate = 512 MB/s" in planned.stdout) == (0, True), planned.stderr
    assert "then a base backup, 500 ms more of the load" in planned.stdout
    done = walproof(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "s until back, " in done.stderr
    assert "The way back: w" in done.stdout
    page = json.loads(walproof("report", "last", "--out", "out", "--format", "json", cwd=tmp_path).stdout)
    assert_valid("report", page)
    assert page["analysis"]["metric"] == "back_s"
    assert [trial["reason"] for trial in page["trials"]] == [None, None]
