"""What ``walproof advise`` refuses before it looks, and what it says of a look that was kept. No server is
asked."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.advise.server.windows import healthy, with_settings
from tests.cli.command import walproof
from tests.golden.unpack import unpack
from tests.schemas import assert_valid
from walproof.cli.advising import LookOrder, Telling, _record, case_of, with_standbys
from walproof.cli.files import check_file, check_new_folder, large_scratch, write_file
from walproof.cli.told_wal import _Recorder
from walproof.errors import DiskError, ProbeError, SettingError, StoreError, WalError
from walproof.facts.codec import to_json
from walproof.lab.receiver import DISK
from walproof.observe.server import ServerObserver
from walproof.observe.walinspect import WalInspector
from walproof.settings.durability import DurabilityClass
from walproof.units import Lsn
from walproof.wal.recording import Position, Recording, read_recording, write_recording

_SETTINGS = {"max_wal_size": "64MB", "server_version": "18.4"}


def test_wal_of_another_server_is_not_read_with_these_statistics(tmp_path: Path) -> None:
    unpack(18, tmp_path)
    began, ended = Position(1795221569.0, Lsn(0x800028)), Position(1795221575.0, Lsn(0xA1CE90))
    write_recording(
        tmp_path,
        Recording(7710417928548557394, 180004, 1, 1 << 20, _SETTINGS, began, ended, (began, ended), "time"),
    )
    with pytest.raises(SettingError, match="statistics of another") as refused:
        case_of(healthy(), tmp_path, DurabilityClass.NONE, None, None, None)
    assert refused.value.detail == "System identifiers: 7710417928548557394 and 7."


@pytest.mark.parametrize(
    ("ended_because", "received", "words"),
    [
        ("time", 1, None),
        ("interrupted", 1, None),
        ("interrupted", 3, "more than 2 B of WAL came"),
        (DISK, 1, "the disk was nearly full"),
        ("the server keeps 1 GB for us", 1, "the server keeps 1 GB for us"),
    ],
)
def test_a_look_that_ends_early_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended_because: str, received: int, words: str | None
) -> None:
    """By what ``capture`` answers, whose own ends are tried on servers elsewhere."""

    def ends(_order: object, watch: Callable[[float, int, int], None], *_: object) -> SimpleNamespace:
        watch(3.0, received, 1 << 40)
        return SimpleNamespace(ended_because=ended_because)

    monkeypatch.setattr("walproof.lab.capture.capture", ends)
    said: list[str] = []
    lack = _record(
        cast(ServerObserver, SimpleNamespace(tick=lambda: None)),
        LookOrder("host=/nowhere", 600.0, 2, tmp_path),
        Telling(lambda *_: None, said.append),
    )
    if words is None:
        assert (lack, said) == (None, [])
    else:
        assert lack is not None
        assert (lack.what, lack.is_refused) == ("the rest of the WAL", False)
        assert said == [lack.reason]
        assert words in lack.reason


def test_a_folder_that_cannot_be_used_is_not_taken_for_a_refusal_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the look would go on for its whole time without the WAL."""

    def full(*_: object) -> None:
        raise DiskError("nearly full")

    monkeypatch.setattr("walproof.lab.capture.capture", full)
    said: list[str] = []
    with pytest.raises(DiskError):
        _record(
            cast(ServerObserver, SimpleNamespace()),
            LookOrder("host=/nowhere", 600.0, 1, tmp_path),
            Telling(lambda *_: None, said.append),
        )
    assert said == []


def _tells(folder: Path) -> _Recorder:
    """Of a server that tells pieces of WAL for ever."""
    server = SimpleNamespace(
        major=18,
        system_identifier=1,
        timeline=1,
        segment_bytes=1 << 20,
        version_num=180004,
        settings=_SETTINGS,
    )
    piece = SimpleNamespace(records=(), data={}, took_s=0.0)
    begun = Lsn(1 << 20)
    inspector = SimpleNamespace(
        server=server, began=begun, spent_s=0.0, piece=lambda _: piece, tip=lambda: begun
    )
    return _Recorder(cast(WalInspector, inspector), folder, 1 << 20)


def test_a_disk_that_is_full_keeps_what_was_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the look with its statistics, which took minutes."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("walproof.lab.segments.SegmentFolder.write", full)
    told = _tells(tmp_path / "look").run(600.0, lambda *_: None)
    assert "until the disk was nearly full" in told.sentence
    assert read_recording(tmp_path / "look").ended_because == "disk"


def test_a_disk_that_is_full_at_the_end_keeps_the_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written is flushed with an error, or the recording itself has no room."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def refuse(folder: Path, _recording: Recording) -> None:
        (folder / "000000010000000000000001.partial").touch()
        raise WalError('could not write "recording.json": No space left on device')

    monkeypatch.setattr("walproof.lab.capture.LEAST_FREE_BYTES", 1 << 62)
    with monkeypatch.context() as patch:
        patch.setattr("walproof.lab.segments.SegmentFolder.flush", full)
        assert _tells(tmp_path / "flushed").run(600.0, lambda *_: None).ended_because == "disk"
    assert read_recording(tmp_path / "flushed").ended_because == "disk"
    monkeypatch.setattr("walproof.wal.recording.write_recording", refuse)
    told = _tells(tmp_path / "written").run(600.0, lambda *_: None)
    assert 'could not write "recording.json": No space left on device' in told.sentence
    assert (told.records, told.wal_bytes) == (0, 0)
    assert list((tmp_path / "written").iterdir()) == []


def test_what_a_server_tells_leaves_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walproof.lab.capture.LEAST_FREE_BYTES", 1 << 62)
    assert _tells(tmp_path / "look").run(600.0, lambda *_: None).ended_because == "disk"


def test_a_standby_that_no_longer_answers_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(conninfo: str, *_: object) -> tuple[dict[str, int], float]:
        if conninfo == "host=b":
            raise ProbeError("could not connect to the server", detail="refused")
        return {}, 30 * 86400.0

    monkeypatch.setattr("walproof.observe.scans.standby_scans", answer)
    window = with_standbys(healthy(), ["host=a", "host=b"])
    assert window.standbys_asked == 1
    assert window.lacks == ("a standby's scans of indexes: could not connect to the server (refused)",)
    assert replace(window, standbys_asked=0, lacks=()) == healthy()


def test_places_are_looked_at_without_making_anything(tmp_path: Path) -> None:
    check_file("--html", tmp_path / "new" / "page.html")
    check_new_folder("--save", tmp_path / "new" / "look")
    assert list(tmp_path.iterdir()) == []
    write_file(tmp_path / "page.html", "before")
    check_file("--html", tmp_path / "page.html")
    check_file("--html", Path(os.devnull))
    with pytest.raises(StoreError, match="is not a folder"):
        check_file("--html", tmp_path / "page.html" / "deeper")
    with pytest.raises(StoreError, match="is not a folder"):
        check_new_folder("--save", tmp_path / "page.html" / "deeper")
    with pytest.raises(SettingError, match="is not empty"):
        check_new_folder("--save", tmp_path)


def test_large_files_do_not_go_into_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    assert large_scratch() in ("/var/tmp", None)
    monkeypatch.setattr(os, "access", _nothing)
    assert large_scratch() is None
    monkeypatch.undo()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert large_scratch() is None


def _nothing(*_: Any) -> bool:
    return False


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A look at a server without fsync, as ``--save`` keeps it where the WAL could not be recorded."""
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "server.json").write_text(to_json(with_settings(healthy(), fsync="off")))
    return folder


def _advice(kept: Path, *words: str) -> dict[str, Any]:
    done = walproof("advise", str(kept), *words, "--json", cwd=kept.parent)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert_valid("advise", found)
    return found


def test_a_rule_that_is_muted_is_left_out(kept: Path) -> None:
    assert [item["rule"] for item in _advice(kept)["advice"]] == ["fsync"]
    assert _advice(kept, "--mute", "fsync", "--mute", "log_checkpoints")["advice"] == []


def test_a_startup_budget_is_held_where_there_is_one(kept: Path) -> None:
    """Without WAL it cannot be; without a budget there is nothing to hold."""
    for words, place in (((), "absent"), (("--startup-budget", "61s"), "unseen")):
        told = _advice(kept, *words)
        places = {name for name in ("fine", "unseen", "absent") for row in told[name]
                  if row["rule"] == "startup budget"}  # fmt: skip
        assert places == {place}


def test_advice_is_written_as_markdown_too(kept: Path) -> None:
    page = kept.parent / "advice.md"
    done = walproof("advise", str(kept), "--markdown", str(page), cwd=kept.parent)
    assert done.returncode == 0, done.stderr
    assert "fsync" in done.stdout
    assert page.read_text().startswith("# ")
    assert "fsync" in page.read_text()
