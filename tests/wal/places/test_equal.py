"""What is read from a store is what is read from a folder with the same files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import walproof
from tests.wal.places.archive import laid_golden
from tests.wal.places.server import S3, url
from tests.wal.verify.test_encrypted import PASS, encrypted
from walproof.cli.span import unread_timelines
from walproof.errors import WalError
from walproof.report.wal.rows import By, json_text, rows
from walproof.report.wal.verify_json import verification_json
from walproof.units import Lsn
from walproof.wal import lines, records, stats
from walproof.wal.clock import segment_times
from walproof.wal.parts import are_parts, join_parts, load_parts, read_part
from walproof.wal.recovery import analyse
from walproof.wal.segment import segment_start
from walproof.wal.strip import strip
from walproof.wal.verify.names import is_segment
from walproof.wal.verify.verify import verify
from walproof.wal.whatif import Target, simulate

LAYOUTS = [("pgBackRest", "lz4"), ("WAL-G", "br"), ("WAL-G", "zst"), ("Barman", "gz"), ("folder", "")]


_WAL = {"pgBackRest": "/archive", "WAL-G": "/wal_005", "Barman": "/main/wals", "folder": ""}


def _verified(root: str) -> Any:
    """What ``wal verify --json`` prints, but for times and the place."""
    found = json.loads(verification_json(verify([root])).replace(root, "ROOT"))
    return {name: value for name, value in found.items() if name not in ("started_at", "ended_at")}


def _totals(root: str) -> str:
    """What ``wal stats --partial --json`` prints, but for the place."""
    wal = stats(root, partial=True)
    return json_text(wal, By.relation, rows(wal, By.relation)).replace(root, "ROOT")


@pytest.mark.parametrize(("layout", "ending"), LAYOUTS)
def test_verify_and_stats_say_the_same(
    stored: S3, golden: Path, tmp_path: Path, layout: str, ending: str
) -> None:
    """Of an archive with a damaged record, two base backups, a history and a label."""
    (tmp_path / "archive").mkdir()
    laid = laid_golden(golden, layout, ending, tmp_path / "archive")
    prefix = f"{layout}-{ending or 'plain'}/archive"
    stored.upload(laid.root, prefix)
    root, there = str(laid.root), url(prefix)
    folder = _verified(root)
    (archive,) = folder["archives"]
    assert archive["layout"] == layout
    assert "damaged" in [problem["kind"] for problem in archive["problems"]]
    assert len(archive["backups"]) == (1 if layout == "folder" else 2)
    assert _verified(there) == folder
    assert _totals(f"{there}{_WAL[layout]}") == _totals(f"{root}{_WAL[layout]}")


def _whatif(text: str) -> Any:
    """Without the CPU that trying methods of compression took."""
    return json.loads(text, object_hook=lambda fields: {k: v for k, v in fields.items() if k != "cpu_s"})


def test_every_reader_gives_the_same(stored: S3, golden: Path, tmp_path: Path) -> None:
    there = url("golden")
    whole = stats(golden, threads=1)
    assert stats(there, threads=1) == stats(there, threads=4) == whole
    assert list(records(there)) == list(records(golden))
    assert "".join(lines(there, style="json")) == "".join(lines(golden, style="json"))
    targets = [Target(max_wal_size_mb=64)]
    assert simulate(there, targets=targets).outcomes == simulate(golden, targets=targets).outcomes
    forecast = [analyse(place, buffers=[1024], start=whole.start) for place in (there, golden)]
    assert forecast[0] == forecast[1]
    first, second = tmp_path / "first", tmp_path / "second"
    assert strip(there, folder=first) == strip(golden, folder=second)
    assert sorted(path.name for path in first.iterdir()) == sorted(path.name for path in second.iterdir())
    assert segment_times([there], whole.segment_size) == [], "all were uploaded at once"


def test_a_single_object_and_parts_elsewhere(stored: S3, golden: Path) -> None:
    """A segment named by itself; an archive of which half is here and half in a store."""
    name = min(path.name for path in golden.iterdir())
    alone = stats(url(f"golden/{name}"))
    assert alone == stats(golden / name)
    rest = [path for path in sorted(golden.iterdir()) if path.name != name]
    assert stats(url(f"golden/{name}"), *rest) == stats(golden)


def test_parts_of_and_in_a_store(stored: S3, golden: Path, tmp_path: Path) -> None:
    """A part is read from a store like from a folder, and is kept in one."""
    whole = stats(golden)
    there = url("golden")
    edge = Lsn((whole.start // whole.segment_size + 1) * whole.segment_size)
    first, second = read_part(there, end=edge), read_part(there, start=edge)
    assert first == read_part(golden, end=edge)
    assert join_parts([first.data, second.data]).stats() == read_part(golden).stats()
    (tmp_path / "parts").mkdir()
    for name, part in (("first", first), ("second", second)):
        (tmp_path / "parts" / name).write_bytes(part.data)
    stored.upload(tmp_path / "parts", "parts")
    kept = [url("parts/first"), url("parts/second")]
    assert are_parts(kept)
    assert not are_parts([there])
    assert load_parts(kept) == join_parts([first.data, second.data])


def test_passes_over_a_store_tell_how_far_they_are(stored: S3, golden: Path) -> None:
    """The same numbers at the end as over a folder, and what the observer raises ends the pass."""
    told: dict[str, list[tuple[int, int]]] = {}
    for where in (str(golden), url("golden")):
        seen = told[where] = []
        stats(where, threads=1, observe=lambda *numbers, seen=seen: seen.append(numbers))
    ends = [seen[-1] for seen in told.values()]
    assert ends[0] == ends[1]
    assert ends[0][0] > 0

    def refuse(_done: int, _expected: int) -> None:
        raise KeyboardInterrupt

    for over in (stats, read_part):
        with pytest.raises(KeyboardInterrupt):
            over(url("golden"), observe=refuse)


@pytest.mark.parametrize("ending", ["", "lz4"])
def test_an_encrypted_repository(
    stored: S3, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """As pgBackRest encrypts it: with the pass what a folder says, without it why not, in the same words."""
    (tmp_path / "archive").mkdir()
    laid = encrypted(laid_golden(golden, "pgBackRest", ending, tmp_path / "archive"))
    prefix = f"encrypted-{ending or 'plain'}"
    stored.upload(laid.root, prefix)
    root, there = str(laid.root), url(prefix)
    for name in [name for name in os.environ if name.startswith("PGBACKREST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PGBACKREST_CONFIG", str(tmp_path / "none.conf"))
    closed = _verified(root)
    assert "encrypted" in [problem["kind"] for problem in closed["archives"][0]["problems"]]
    assert _verified(there) == closed
    monkeypatch.setenv("PGBACKREST_REPO1_CIPHER_PASS", PASS)
    opened = _verified(root)
    assert [problem["kind"] for problem in opened["archives"][0]["problems"]] == ["damaged", "unfinished"]
    assert len(opened["archives"][0]["backups"]) == 2
    assert _verified(there) == opened
    assert _totals(f"{there}/archive") == _totals(f"{root}/archive")


def test_an_encrypted_object_is_refused(stored: S3, golden: Path, tmp_path: Path) -> None:
    """What other tools encrypted: no repository of pgBackRest is around it."""
    name = min(path.name for path in golden.iterdir())
    (tmp_path / name).write_bytes(b"Salted__" + bytes(1 << 16))
    stored.upload(tmp_path, "other/encrypted")
    with pytest.raises(
        WalError, match=r"it is encrypted, and no archive\.info of pgBackRest is in the folders"
    ):
        stats(url("other/encrypted"))


def test_a_recording_in_a_store(stored: S3, golden: Path, tmp_path: Path) -> None:
    """What ``wal capture`` wrote beside the segments is found there: names and settings."""
    number = stats(golden).system_identifier
    position = [1_700_000_000.0, "0/A00028"]
    recording = {
        "format": 1, "system_identifier": number, "version_num": 170006, "timeline": 1,
        "segment_bytes": 1 << 20,
        "settings": {"max_wal_size": "64MB", "server_version": "17.6"}, "began": position, "ended": position,
        "positions": [position], "ended_because": "time",
    }  # fmt: skip
    names = {
        "format": 1, "system_identifier": number, "version_num": 170006, "taken_at": 1.7e9, "relations": [],
        "left_out": [],
    }  # fmt: skip
    folder = tmp_path / "recording"
    folder.mkdir()
    (folder / "recording.json").write_text(json.dumps(recording))
    (folder / "relations.json").write_text(json.dumps(names))
    for path in golden.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    stored.upload(folder, "recording")
    told = [
        walproof("wal", *words, str(where), cwd=tmp_path)
        for words in (("whatif", "--set", "max_wal_size=128MB", "--json"), ("records", "-n", "20"))
        for where in (folder, url("recording"))
    ]
    assert [done.returncode for done in told] == [0, 0, 0, 0], told[-1].stderr
    assert _whatif(told[0].stdout) == _whatif(told[1].stdout)
    present = json.loads(told[1].stdout)["present"]
    assert (present["max_wal_size_mb"], present["is_known"]) == (64, True)
    assert told[2].stdout == told[3].stdout


def test_timelines_that_are_not_read_are_said_of_a_store(stored: S3, golden: Path, tmp_path: Path) -> None:
    """By segments of both, and by a history without any."""
    segments = sorted(path for path in golden.iterdir() if is_segment(path.name))
    both, promoted = tmp_path / "both", tmp_path / "promoted"
    for folder in (both, promoted):
        folder.mkdir()
        for segment in segments:
            (folder / segment.name).write_bytes(segment.read_bytes())
    (both / f"00000002{segments[0].name[8:]}").touch()
    last = segment_start(segments[-1].name, 1 << 20)
    (promoted / "00000002.history").write_text(f"1\t{last}\tno recovery target specified\n")
    for folder in (both, promoted):
        stored.upload(folder, f"timelines/{folder.name}")
        said = unread_timelines([str(folder)])
        assert said is not None
        assert unread_timelines([url(f"timelines/{folder.name}")]) == said
    assert unread_timelines([url("golden")]) is None
    assert unread_timelines([url(f"golden/{segments[0].name}")]) is None
