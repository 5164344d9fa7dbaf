"""Power cuts of real servers: the safe is found safe, the dangerous is caught, and cases are repeated."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from walproof.disk.image import Survival
from walproof.disk.simulated import CutEvent, DiskModel, SimulatedDisk
from walproof.errors import DiskError, WorkloadError
from walproof.facts import CutConditions, CutFacts, ImageState, Install, NameRule, Script, Workload
from walproof.lab.power_cut import cut as power_cut
from walproof.lab.power_cut import self_test
from walproof.lab.power_cut.again import ReopenedImage, find_image
from walproof.lab.power_cut.cut import (
    CutLab,
    CutOrder,
    cut_initdb_options,
    cut_metrics,
    cut_power,
    may_be_unflushed,
    prepare_cut_template,
)
from walproof.lab.power_cut.kept_image import read_case
from walproof.lab.power_cut.self_test import run_self_test
from walproof.lab.power_cut.verdict import FOLDERS, ImageVerdict, judge
from walproof.postgres.build import has_extension
from walproof.postgres.install import find
from walproof.postgres.reach import reachable_pgbench
from walproof.postgres.workspace import Workspace
from walproof.privilege.copying import copy_tree
from walproof.privilege.user import ServerUser, server_user

pytestmark = [pytest.mark.live, pytest.mark.pg(newest=True)]

SETTINGS = {"shared_buffers": "8MB", "bgwriter_delay": "10ms", "max_wal_size": "64MB", "min_wal_size": "32MB"}
PGBENCH = Workload("tpcb", "tpcb-like", (), 1, 2, 1, 60.0, None, None, "simple", 0.0)
OWN = replace(
    PGBENCH,
    builtin=None,
    scripts=(
        Script(
            "no tellers",
            "\\set aid random(1, 100000)\n\\set delta random(1, 5000)\nBEGIN;\n"
            "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n"
            "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = 1;\n"
            "INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, :aid, :delta);\nEND;\n",
        ),
    ),
)
"""pgbench's tables, and sums that differ from table to table."""


@pytest.fixture(scope="module")
def memory_work() -> Iterator[Path]:
    """A folder in memory, where power cuts have their clusters: the disk is simulated anyway. Its templates
    stay until the module's last test, because one workspace is open all the time."""
    work = Path(f"/dev/shm/walproof-tests-{os.getpid()}")
    with Workspace(work, server_user()):
        yield work
    assert not work.exists()


@pytest.fixture
def memory(memory_work: Path) -> Iterator[Workspace]:
    """A workspace of this test in memory."""
    with Workspace(memory_work, server_user()) as opened:
        yield opened


def _lab(
    install: Install,
    workspace: Workspace,
    conditions: CutConditions | None = None,
    workload: Workload = PGBENCH,
) -> CutLab:
    options = cut_initdb_options(install, conditions or CutConditions())
    pgbench = reachable_pgbench([install, find("embedded")], workspace.user)
    template = prepare_cut_template(workspace, install, options, pgbench, workload)
    has_amcheck = has_extension(install, "amcheck")
    return CutLab(workspace, install, pgbench, template, has_amcheck, workload.is_pgbenchs_own)


def _cut(lab: CutLab, order: CutOrder) -> CutFacts:
    """A moment soon after the load began, so that a slow machine meets it too."""
    settings = {**SETTINGS, **order.settings}
    return cut_power(lab, replace(order, settings=settings, workload=order.workload or PGBENCH))


def _told(*cuts: CutFacts) -> str:
    """What a failure has to say, so that it can be looked into although it does not come again."""
    lines = []
    for cut in cuts:
        lines.append(
            f"seed {cut.seed}, {cut.moment}, {cut.pace}, {cut.load_s:.1f} s, {cut.acknowledged} acknowledged,"
            f" {cut.checkpoints} checkpoints, unflushed: {', '.join(cut.unflushed) or 'none'}"
        )
        lines += [
            f"  image {image.number} (seed {image.seed}, {image.survival}, {image.check_s:.1f} s): "
            f"{image.state.value}: {image.reason}; {image.torn_pages} torn pages, "
            f"{image.lost_commits} lost; kept: {image.kept}"
            for image in cut.images
        ]
    return "\n" + "\n".join(lines)


SOON = (CutEvent.TORN_WRITE, 1500)


def test_full_durability_loses_nothing(install: Install, memory: Workspace, tmp_path: Path) -> None:
    order = CutOrder(1, {}, CutConditions(), images=5, moment=SOON, keep=tmp_path)
    cut = _cut(_lab(install, memory), order)
    assert all(image.state.is_sound for image in cut.images), _told(cut)
    assert cut.acknowledged > 20
    assert cut.unflushed == ()
    assert cut.moment == "torn write 1500"


@pytest.mark.parametrize("names", ["journal", "strict"])
def test_full_durability_when_names_are_lost(
    embedded: Install, memory: Workspace, names: NameRule, tmp_path: Path
) -> None:
    conditions = CutConditions(names=names)
    order = CutOrder(2, {}, conditions, images=3, moment=(CutEvent.RENAME, 4), keep=tmp_path)
    cut = _cut(_lab(embedded, memory), order)
    # PostgreSQL relies on more than POSIX promises: tests/disk/test_power_cut.py.
    assert all(image.state.is_sound for image in cut.images) == (names == "journal"), _told(cut)


def test_a_work_folder_that_no_tablespace_can_have(embedded: Install, memory_work: Path) -> None:
    with (
        Workspace(memory_work / "it's", server_user()) as workspace,
        pytest.raises(WorkloadError, match="location cannot contain single quotes"),
    ):
        _cut(_lab(embedded, workspace), CutOrder(5, {}, CutConditions(), images=1))


def test_a_failing_flush_is_survived(embedded: Install, memory: Workspace, tmp_path: Path) -> None:
    conditions = CutConditions(failing_flush=True)
    order = CutOrder(3, {}, conditions, images=3, moment=(CutEvent.WAL_FLUSH, 200), keep=tmp_path)
    cut = _cut(_lab(embedded, memory), order)
    assert all(image.state.is_sound for image in cut.images), _told(cut)
    # Of a segment that was only being made no PANIC is needed.
    assert cut.moment in ("failing wal flush 200", "failing wal flush 200, no PANIC")


def test_asynchronous_commits_lose_the_last_and_nothing_else(
    embedded: Install, memory: Workspace, tmp_path: Path
) -> None:
    settings = {"synchronous_commit": "off", "wal_writer_delay": "1s"}
    lab = _lab(embedded, memory)
    orders = [CutOrder(seed, settings, CutConditions(), images=2, keep=tmp_path) for seed in (4, 5)]
    cuts = [_cut(lab, order) for order in orders]
    states = {image.state for cut in cuts for image in cut.images}
    assert all(state.is_sound or state is ImageState.LOST for state in states), _told(*cuts)
    assert ImageState.LOST in states, _told(*cuts)
    for cut in cuts:
        for image in cut.images:
            if image.state is ImageState.LOST:
                assert image.lost_commits > 0
                assert image.loss_window_ms is not None
        assert cut_metrics(cut)["cut_images"] == 2


def test_unlogged_tables_are_empty_and_nothing_worse(embedded: Install, memory: Workspace) -> None:
    """Beside a load whose sums are not those of pgbench."""
    order = CutOrder(8, {}, CutConditions(unlogged=True), images=2, moment=SOON, workload=OWN)
    cut = _cut(_lab(embedded, memory, workload=OWN), order)
    assert {image.state for image in cut.images} == {ImageState.LOST}, _told(cut)
    assert {image.lost_commits for image in cut.images} == {cut.acknowledged}


def test_a_load_that_fails_at_once_is_no_verdict(embedded: Install, memory: Workspace) -> None:
    absent = replace(OWN, scripts=(Script("typo", "INSERT INTO event VALUES (1);\n"),))
    # Late enough for pgbench to have failed on a busy machine.
    late = (CutEvent.TORN_WRITE, 20_000)
    order = CutOrder(14, {}, CutConditions(), images=1, moment=late, workload=absent)
    with pytest.raises(WorkloadError, match='relation "event" does not exist'):
        _cut(_lab(embedded, memory, workload=absent), order)


def test_a_swallowed_flush_of_the_commit_status_is_caught(embedded: Install, memory: Workspace) -> None:
    """A step of PostgreSQL that is broken on purpose: the audit names the file, and commits are gone."""
    lab = _lab(embedded, memory)
    nothing = (Survival("nothing"),)
    order = CutOrder(
        9, {}, CutConditions(writeback_s=None), images=1, survivals=nothing,
        moment=(CutEvent.RELATION_FLUSH, 150), swallowed="pg_xact/",
    )  # fmt: skip
    cut = _cut(lab, order)
    assert cut.unflushed == ("pg_xact/0000",)
    assert cut.images[0].state.is_failure, _told(cut)
    sound = _cut(lab, replace(order, swallowed=""))
    assert sound.unflushed == ()
    assert sound.images[0].state.is_sound, _told(sound)


def test_a_failing_image_is_kept_and_repeated(embedded: Install, memory: Workspace, tmp_path: Path) -> None:
    order = CutOrder(
        10, {"fsync": "off"}, CutConditions(writeback_s=None), images=2, moment=SOON, keep=tmp_path / "kept"
    )
    cut = _cut(_lab(embedded, memory), order)
    failing = [image for image in cut.images if image.state.is_failure]
    assert failing, _told(cut)
    assert all(image.kept is not None for image in failing)
    for image in failing:
        folder = Path(str(image.kept))
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert read_case(folder).image == image
        with ReopenedImage(folder, memory.work) as replay:
            again = replay.judge()
        assert (again.state, again.torn_pages, again.lost_commits) == (
            image.state,
            image.torn_pages,
            image.lost_commits,
        )
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
        assert {path.lstat().st_uid for path in folder.rglob("*")} == {os.geteuid()}
    folder = folder.rename(tmp_path / "moved")
    with ReopenedImage(folder, memory.work) as replay:
        assert replay.judge().state is image.state
    # Whoever makes an image may put links into it, and programs that its case names.
    (folder / "data" / "pg_tblspc" / "1").symlink_to("/etc")
    case = (folder / "case.json").read_text()
    (folder / "case.json").write_text(case.replace(embedded.bindir, str(tmp_path)))
    with (
        pytest.raises(DiskError, match='link of the image leads out of it: "data/pg_tblspc/1"'),
        ReopenedImage(folder, memory.work) as replay,
    ):
        replay.judge()
    folder.chmod(0o777)
    with pytest.raises(DiskError, match="others may write to it"):
        ReopenedImage(folder, memory.work)
    with pytest.raises(DiskError, match="is not a kept image"):
        read_case(tmp_path)
    with pytest.raises(DiskError, match="does not exist in this run"):
        find_image((), "1/1")


def test_what_is_found_once_only_is_no_verdict(
    embedded: Install, memory: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes are looked at twice before an image fails that must not."""
    wrong = ImageVerdict(ImageState.CORRUPT, "nobody knows why", 0, 0, None)
    order = CutOrder(12, {}, CutConditions(), images=1, moment=SOON, keep=tmp_path)
    lab = _lab(embedded, memory)
    verdicts = iter([wrong])
    monkeypatch.setattr(
        "walproof.lab.power_cut.cut.judge",
        lambda *args, **kwargs: next(verdicts, None) or judge(*args, **kwargs),
    )
    with pytest.raises(DiskError, match="the same image was judged in two ways") as caught:
        _cut(lab, order)
    detail = str(caught.value.detail)
    assert detail.startswith("corrupt: nobody knows why; the second time clean (cut at t")
    assert f'kept in "{tmp_path}' in detail
    (kept,) = tmp_path.iterdir()
    assert read_case(kept).image.reason == "nobody knows why"
    monkeypatch.setattr("walproof.lab.power_cut.cut.judge", lambda *_args, **_kwargs: wrong)
    (image,) = _cut(lab, order).images
    assert (image.state, image.reason) == (ImageState.CORRUPT, "nobody knows why")


def test_an_image_that_cannot_be_kept_is_told_of_without_it(
    embedded: Install, memory: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk is full, nothing of it stays there; nor is the disk of the servers sure to have room."""

    def fill(source: Path, target: Path, *, reader: ServerUser | None, writer: ServerUser | None) -> None:
        if target.name == FOLDERS[-1]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        copy_tree(source, target, reader=reader, writer=writer)

    wrong = ImageVerdict(ImageState.CORRUPT, "nobody knows why", 0, 0, None)
    monkeypatch.setattr("walproof.lab.power_cut.cut.judge", lambda *_args, **_kwargs: wrong)
    monkeypatch.setattr("walproof.lab.power_cut.kept_image.copy_tree", fill)
    order = CutOrder(12, {}, CutConditions(), images=1, moment=SOON, keep=tmp_path)
    (image,) = _cut(_lab(embedded, memory), order).images
    assert (image.state, image.kept) == (ImageState.CORRUPT, None)
    said = rf'nobody knows why; could not keep an image in "{tmp_path}/.*": No space left on device'
    assert re.fullmatch(said, str(image.reason))
    assert list(tmp_path.iterdir()) == []

    def refuse(workspace: Workspace, name: str) -> Path:
        if name.startswith("kept-"):
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        return make(workspace, name)

    make = Workspace.make_folder
    monkeypatch.setattr(Workspace, "make_folder", refuse)
    (image,) = _cut(_lab(embedded, memory), order).images
    assert (image.state, image.kept) == (ImageState.CORRUPT, None)
    assert os.strerror(errno.EDQUOT) in str(image.reason)


def test_a_server_that_ends_before_the_cut_is_no_verdict(
    embedded: Install, memory: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shoot_and_wait(disk: SimulatedDisk, event: CutEvent, count: int, _longest_s: float) -> str:
        servers = [
            process
            for process in psutil.Process().children()
            # A zombie has no arguments: a child of another test, for which nobody has waited yet.
            if process.status() != psutil.STATUS_ZOMBIE and str(memory.folder) in " ".join(process.cmdline())
        ]
        (postmaster,) = [server for server in servers if server.name() == "postgres"]
        postmaster.children()[0].kill()
        postmaster.wait(30)
        return real(disk, event, count, 0.1)

    real = power_cut._cut_at
    monkeypatch.setattr(power_cut, "_cut_at", shoot_and_wait)
    with pytest.raises(DiskError, match="the server ended before its power was cut") as caught:
        _cut(_lab(embedded, memory), CutOrder(13, {}, CutConditions(), images=1, moment=SOON))
    assert "was terminated by signal 9" in str(caught.value.detail)


def test_the_self_test_passes_and_notices_a_broken_simulator(
    embedded: Install, memory: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = _lab(embedded, memory)
    said = run_self_test(lab)
    assert "fsync=off: 2 of 2 images caught" in said
    assert "full durability: 0 of 3 images caught" in said
    # A simulator that keeps everything, as a test with kill -9 does.
    kept = [replace(case, survivals=(Survival("everything"),) * 2) for case in self_test._CASES]
    monkeypatch.setattr(self_test, "_CASES", tuple(kept[1:2]))
    with pytest.raises(DiskError, match="self-test of the power cuts failed: fsync=off") as caught:
        run_self_test(lab)
    assert caught.value.detail == "expected 2 of 2 images to fail, got 0"
    # One that loses what was flushed.
    broken = [replace(case, settings={"fsync": "off"}, survivals=(Survival("random"),)) for case in kept]
    monkeypatch.setattr(self_test, "_CASES", tuple(broken[3:]))
    with pytest.raises(DiskError, match="self-test of the power cuts failed: full durability"):
        run_self_test(lab)


def test_a_run_that_outgrows_its_memory_is_void(
    embedded: Install, memory: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = partial(DiskModel, undo_bytes=256 * 1024)
    monkeypatch.setattr("walproof.lab.power_cut.cut.DiskModel", small)
    order = CutOrder(11, {"fsync": "off"}, CutConditions(writeback_s=None), images=1, moment=SOON)
    with pytest.raises((DiskError, WorkloadError), match="the run is void: more data was written"):
        _cut(_lab(embedded, memory), order)


def test_files_that_may_stay_unflushed() -> None:
    for path in ("pg_subtrans/0000", "base/5/pg_internal.init", "pg_stat/pgstat.stat", "postmaster.opts"):
        assert may_be_unflushed(path)
    for path in ("pg_xact/0000", "base/5/16384", "global/pg_control", "pg_multixact/offsets/0000"):
        assert not may_be_unflushed(path)
