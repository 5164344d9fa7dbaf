"""An archive with a gap that only the server's pg_wal still fills: a problem, not a whole archive."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

from tests.cli.command import walproof
from tests.wal.verify.conftest import Layer
from tests.wal.verify.layouts import Laid
from tests.wal.verify.source import segment_lsn
from walproof.report.wal.verify_verdict import verdict
from walproof.wal.verify.verify import VerifiedArchive, verify


def _pg_wal(laid: Laid, folder: Path, names: list[str], ready: tuple[str, ...] = ()) -> Path:
    """A server's pg_wal that still has these segments."""
    wal = folder / "data" / "pg_wal"
    (wal / "archive_status").mkdir(parents=True)
    (folder / "data" / "PG_VERSION").write_text("18\n")
    for name in names:
        (wal / name).write_bytes(laid.source.segments[name])
        (wal / "archive_status" / f"{name}{'.ready' if name in ready else '.done'}").touch()
    return wal


def _both(laid: Laid, wal: Path) -> VerifiedArchive:
    """The answer for the archive and the data directory, which is the same in either order."""
    (first,) = verify([laid.root, wal.parent]).archives
    (second,) = verify([wal, laid.root]).archives
    assert first.problems == second.problems
    assert [window.end for window in first.windows] == [window.end for window in second.windows]
    return first


def test_pg_wal_does_not_fill_a_gap(layer: Layer, tmp_path: Path) -> None:
    """The newest timeline's last segments: one is lost, later ones are archived, pg_wal goes on."""
    laid = layer("folder", "")
    names = laid.source.names(2)[-5:]
    lost, beyond = names[1], names[-1]
    for name in (lost, beyond):
        laid.lose(name)
    wal = _pg_wal(laid, tmp_path, names)
    (alone,) = verify([laid.root]).archives
    both = _both(laid, wal)
    assert [problem.kind for problem in alone.problems] == ["missing"]
    (problem,) = both.problems
    assert (problem.kind, problem.segment, problem.lsn) == ("not archived", lost, segment_lsn(lost))
    assert problem.message == (
        f"segment {lost} is only in pg_wal, though {names[2]} and later are in the archive; the server will "
        "remove it"
    )
    assert problem.path == str(wal / lost)
    assert not both.is_whole
    assert both.pg_wal == (str(wal),)
    assert [window.end for window in both.windows] == [window.end for window in alone.windows]
    assert {window.ending.reason for window in both.windows} == {"not archived"}
    assert both.ranges[-1].end == laid.source.ends[-1] > alone.ranges[-1].end  # pg_wal goes on at the end


def test_the_command_mends_it(layer: Layer, tmp_path: Path) -> None:
    for ending in ("", "gz"):
        laid = layer("folder", ending)
        names = laid.source.names(1)[-6:-1]
        for name in names[1:3]:
            laid.lose(name)
        wal = _pg_wal(laid, tmp_path / f"it's {ending}", names)
        (problem,) = _both(laid, wal).problems
        assert problem.segments == 2
        assert f"2 segments, {names[1]} to {names[2]}, are only in pg_wal" in problem.message
        assert problem.message.endswith("the server will remove them")
        assert problem.command is not None
        assert shlex.split(problem.command)[0] == ("gzip" if ending else "cp")
        subprocess.run(problem.command, shell=True, check=True)
        assert _both(laid, wal).problems == ()
        (alone,) = verify([laid.root]).archives
        assert alone.problems == ()


def test_what_pg_wal_lacks_as_well_is_missing(layer: Layer, tmp_path: Path) -> None:
    laid = layer("folder", "")
    names = laid.source.names(1)[-6:-1]
    for name in names[:3]:
        laid.lose(name)
    wal = _pg_wal(laid, tmp_path, [names[1], *names[3:]], ready=(names[1],))
    problems = _both(laid, wal).problems
    assert [(problem.kind, problem.segment) for problem in problems] == [
        ("missing", names[0]), ("not archived", names[1]), ("missing", names[2]),
    ]  # fmt: skip
    assert problems[1].message.endswith("the archiver is still to archive it")


def test_the_last_segment_before_a_promotion(layer: Layer, tmp_path: Path) -> None:
    """The older timeline's newest segment: the archive went on with the newer timeline."""
    laid = layer("folder", "")
    lost = laid.source.names(1)[-1]
    laid.lose(lost)
    wal = _pg_wal(laid, tmp_path, [*laid.source.names(1)[-2:], *laid.source.names(2)])
    (problem,) = _both(laid, wal).problems
    assert (problem.kind, problem.segment, problem.timeline) == ("not archived", lost, 1)
    assert f"though {laid.source.names(2)[0]} and later are in the archive" in problem.message


def test_a_history_that_only_pg_wal_has_is_missing(layer: Layer, tmp_path: Path) -> None:
    """Without it a restore from the archive does not find its way to the newer timeline."""
    laid = layer("folder", "")
    (kept,) = laid.root.rglob("00000002.history")
    wal = _pg_wal(laid, tmp_path, laid.source.names(2)[-1:])
    assert _both(laid, wal).problems == ()
    kept.rename(wal / kept.name)
    (problem,) = _both(laid, wal).problems
    assert problem.kind == "history missing"
    first = laid.source.names(2)[0]
    assert problem.message == f"00000002.history is only in pg_wal, though {first} is in the archive"
    assert problem.path == str(wal / kept.name)
    assert problem.command is not None
    subprocess.run(problem.command, shell=True, check=True)
    assert _both(laid, wal).problems == ()


def test_what_is_older_than_the_archive_is_no_gap(layer: Layer, tmp_path: Path) -> None:
    """Archiving began later, or the archive's older segments expired: pg_wal may have more."""
    laid = layer("folder", "")
    second = laid.source.backups[1].start
    older = [name for name in laid.source.names(1) if segment_lsn(name) < second - second % (1 << 20)]
    for name in older:
        laid.lose(name)
    wal = _pg_wal(laid, tmp_path, laid.source.names(1)[len(older) - 2 :])
    (alone,) = verify([laid.root]).archives
    both = _both(laid, wal)
    assert both.problems == tuple(alone.problems)
    assert both.first_segment == alone.first_segment


def test_a_restore_takes_the_archives_own_file(layer: Layer, tmp_path: Path) -> None:
    """A truncated segment ends the window, though pg_wal has a whole copy."""
    laid = layer("folder", "")
    names = laid.source.names(2)[-4:]
    laid.change(names[1], laid.source.segments[names[1]][:100_000])
    (alone,) = verify([laid.root]).archives
    both = _both(laid, _pg_wal(laid, tmp_path, names))
    assert [problem.kind for problem in both.problems] == ["truncated"]
    assert [window.end for window in both.windows] == [window.end for window in alone.windows]


def test_two_pg_wals_are_no_archive(layer: Layer, tmp_path: Path) -> None:
    """A primary's and a standby's: nothing says what was archived."""
    laid = layer("folder", "")
    names = laid.source.names(1)[-6:-1]
    first = _pg_wal(laid, tmp_path / "first", names[:2] + names[3:])
    second = _pg_wal(laid, tmp_path / "second", names)
    (found,) = verify([first, second]).archives
    assert (found.layout, found.problems) == ("pg_wal", ())


def test_as_it_is_printed(layer: Layer, tmp_path: Path) -> None:
    laid = layer("folder", "")
    names = laid.source.names(2)[-4:]
    laid.lose(names[1])
    wal = _pg_wal(laid, tmp_path, names)
    arguments = ("wal", "verify", str(laid.root), str(wal.parent), "--prometheus", str(tmp_path / "prom"))
    done = walproof(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    end = laid.source.end_before(segment_lsn(names[1]))
    assert lines[0].startswith("broken, 1 problem: no restore to moments after ")
    assert f"({end}) (the WAL goes on to {laid.source.ends[-1]}); you can restore to any moment" in lines[0]
    assert lines[1].startswith(f"folder {laid.root} and {wal} · PostgreSQL 18")
    assert f"error: not archived: segment {names[1]} is only in pg_wal" in done.stdout
    assert f"    -> cp -p {wal / names[1]} {laid.root}/" in lines
    (archive,) = json.loads(walproof(*arguments, "--json", cwd=tmp_path).stdout)["archives"]
    assert archive["pg_wal"] == [str(wal)]
    assert archive["problems"][0]["command"] == f"cp -p {wal / names[1]} {laid.root}/"
    both = os.path.commonpath([laid.root, wal])
    labels = f'archive="{laid.root} and {wal}",layout="folder",path="{both}"'
    metrics = (tmp_path / "prom").read_text().splitlines()
    assert f'walproof_archive_problems{{{labels},kind="not archived"}} 1' in metrics
    assert f"walproof_archive_whole{{{labels}}} 0" in metrics


def test_a_loss_is_said_first(layer: Layer) -> None:
    """A gap between two backups; one that follows the last; none where nothing is lost."""
    laid = layer("folder", "")
    first, second = laid.source.backups
    lost = next(name for name in laid.source.names(1) if segment_lsn(name) > first.stop)
    laid.lose(lost)
    (between,) = verify([laid.root]).archives
    end = laid.source.end_before(segment_lsn(lost))
    said = verdict(between)
    assert said.startswith("broken, 1 problem: no restore to moments between ")
    head = said.split("; you can restore")[0]
    assert f"{end} and " in head.replace(")", "")
    assert head.endswith(f"({second.stop})")
    laid.lose(laid.source.names(2)[-2])
    (both,) = verify([laid.root]).archives
    assert ", or after " in verdict(both)
    assert f"(the WAL goes on to {laid.source.ends[-1]}); you can" in verdict(both)
    whole = layer("pgBackRest", "")
    assert verdict(verify([whole.root]).archives[0]).startswith("whole: you can restore to any moment from ")
