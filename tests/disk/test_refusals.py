"""What makes a simulated disk impossible is refused before a run, with the reason."""

from __future__ import annotations

import os
import shutil
import struct
import uuid
from pathlib import Path

import pytest

from tests.needs import lacking
from walproof import _native
from walproof.disk import preload
from walproof.disk.image import image_path
from walproof.disk.preload import check_program
from walproof.disk.simulated import STATE_FOLDER, CutEvent, DiskModel, SimulatedDisk
from walproof.errors import DiskError
from walproof.facts import Install
from walproof.privilege.acting import acting_as
from walproof.privilege.user import server_user


def _elf(path: Path, interpreter: bytes | None) -> Path:
    """The smallest ELF file that names its interpreter, or none."""
    count = 1 if interpreter else 0
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, count, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, len(interpreter or b""), 0, 1) if count else b""
    path.write_bytes(header + segment + (interpreter or b""))
    return path


def _state() -> Path:
    return STATE_FOLDER / f"walproof-test-{uuid.uuid4().hex}"


def test_a_server_at_hand_is_accepted(embedded: Install) -> None:
    check_program(Path(embedded.bindir) / "postgres")


@pytest.mark.parametrize(
    ("interpreter", "mode", "reason"),
    [
        (None, 0o755, "not a dynamically linked"),
        (b"/lib/ld-musl-x86_64.so.1\0", 0o755, "not glibc"),
        (b"/lib64/ld-linux-x86-64.so.2\0", 0o4755, "setuid"),
    ],
)
def test_a_program_that_ignores_the_library(
    tmp_path: Path, interpreter: bytes | None, mode: int, reason: str
) -> None:
    program = _elf(tmp_path / "postgres", interpreter)
    program.chmod(mode)
    with pytest.raises(DiskError, match="no simulated disk under") as caught:
        check_program(program)
    assert reason in str(caught.value.detail)


def test_a_script_and_a_missing_program(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\n")
    with pytest.raises(DiskError, match="no simulated disk under"):
        check_program(tmp_path / "script")
    with pytest.raises(DiskError, match="could not read"):
        check_program(tmp_path / "nothing")


def test_another_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    with pytest.raises(DiskError, match="no simulated disk on linux arm64"):
        preload.library()


def test_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walproof.__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(DiskError, match="library of the simulated disk is missing"):
        preload.library()


def test_too_little_memory(tmp_path: Path) -> None:
    free = shutil.disk_usage(STATE_FOLDER).free
    model = DiskModel(undo_bytes=free + 4096)
    state = _state()
    with (
        pytest.raises(DiskError, match="too small for the simulated disk") as caught,
        SimulatedDisk([tmp_path], model, state),
    ):
        pass
    assert "--shm-size" in str(caught.value.hint)
    assert not state.exists()


def test_a_filesystem_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, _target: Path) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    root = tmp_path / "data"
    root.mkdir()
    with (
        pytest.raises(DiskError, match="has no hard links: Operation not permitted"),
        SimulatedDisk([root], DiskModel(undo_bytes=4096), _state()),
    ):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


def test_a_library_that_was_not_loaded(tmp_path: Path) -> None:
    root = tmp_path / "data"
    root.mkdir()
    disk = SimulatedDisk([root], DiskModel(undo_bytes=4096), _state())
    with disk, pytest.raises(DiskError, match="without the library"):
        disk.check_attached()
    assert not disk.state.exists()


def test_a_state_that_is_none(tmp_path: Path) -> None:
    disk = SimulatedDisk([tmp_path], DiskModel(), tmp_path / "state")
    disk.state.write_bytes(bytes(100_000))
    with pytest.raises(DiskError, match="not the state of a simulated disk"):
        disk.status()


@pytest.mark.parametrize(
    ("survival", "unit_bytes", "kind", "reason"),
    [
        ("by agee", 512, "d", "no such survival: by agee"),
        ("random", 1024, "d", "no such unit: 1024 bytes"),
        ("random", 512, "p", "no such kind of file: p"),
    ],
)
def test_an_image_of_unknown_words(
    tmp_path: Path, survival: str, unit_bytes: int, kind: str, reason: str
) -> None:
    """A default in their place would be another image than the one that was asked for."""
    root = tmp_path / "data"
    root.mkdir()
    row = (0, b"", kind, 1, 1, 0, b"")
    disk = SimulatedDisk([root], DiskModel(undo_bytes=4096), _state())
    with disk, pytest.raises(ValueError, match=reason):
        _native.disk_image(disk.state, [row], [], seed=1, survival=survival, keep=0.5, unit_bytes=unit_bytes)


def test_an_event_that_no_disk_has(tmp_path: Path) -> None:
    """The power would never be cut."""
    root = tmp_path / "data"
    root.mkdir()
    disk = SimulatedDisk([root], DiskModel(undo_bytes=4096), _state())
    number = len(_native.disk_events())
    with disk, pytest.raises(ValueError, match=f"no event has number {number}"):
        _native.disk_arm(disk.state, number, 1, False)


def test_a_state_that_was_exchanged_for_a_link(open_place: Path) -> None:
    """Whoever runs the server may write, and exchange, the state: root must not write where it leads then."""
    user = server_user()
    if user is None:
        lacking("root", "a file of another user cannot be written to")
    home = open_place / "home"
    home.mkdir()
    os.chown(home, user.uid, user.gid)
    with acting_as(user):
        (home / "data").mkdir()
    precious = open_place / "precious"
    with SimulatedDisk([home / "data"], DiskModel(undo_bytes=4096), _state(), user=user) as disk:
        precious.write_bytes(disk.state.read_bytes())
        precious.chmod(0o600)
        before = precious.read_bytes()
        with acting_as(user):
            disk.state.unlink()
            disk.state.symlink_to(precious)
        with pytest.raises((OSError, DiskError)):
            disk.cut()
        with pytest.raises((OSError, DiskError)):
            disk.arm(CutEvent.WAL_WRITE, 1)
    assert precious.read_bytes() == before


@pytest.mark.parametrize("path", [b"/etc/passwd", b"../../passwd", b"base/../../passwd"])
def test_a_file_outside_of_an_image(tmp_path: Path, path: bytes) -> None:
    """Paths come from the state."""
    with pytest.raises(DiskError, match="names a file outside of it"):
        image_path(tmp_path, path)
    assert image_path(tmp_path, b"") == tmp_path
    assert image_path(tmp_path, b"base/5/1") == tmp_path / "base/5/1"


@pytest.mark.parametrize(("name", "is_accepted"), [(b"/far/ld-linux-x86-64.so.2\0", True), (b"/x\0", False)])
def test_an_interpreter_at_the_end_of_a_large_program(tmp_path: Path, name: bytes, is_accepted: bool) -> None:
    """Where patchelf puts a longer one: beyond whatever is read of the file's beginning."""
    program = _elf(tmp_path / "postgres", name)
    content, place = bytearray(program.read_bytes()), 11 << 20
    struct.pack_into("<Q", content, 64 + 8, place)
    program.write_bytes(bytes(content[:120]).ljust(place, b"\0") + name)
    program.chmod(0o755)
    if is_accepted:
        check_program(program)
    else:
        with pytest.raises(DiskError, match="no simulated disk under"):
            check_program(program)
