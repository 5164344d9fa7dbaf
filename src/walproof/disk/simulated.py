"""A simulated disk under a server: it takes the time of a device, and its power can be cut.

The server runs with a preloaded library (:mod:`walproof.disk.preload`) whose processes share one state file.
This module makes the state, arms the moment of the cut, and waits for it; :mod:`walproof.disk.image` builds
what the disk could hold afterwards. It knows folders and an environment, nothing of PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Literal

from walproof import _native
from walproof.disk.device import Device
from walproof.disk.preload import library
from walproof.errors import DiskError
from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser
from walproof.units import format_bytes

STATE_FOLDER = Path("/dev/shm")
"""Where state files are: in memory, so that keeping undo costs no disk."""
STATE_VARIABLE = "WALPROOF_DISK_STATE"
_OVERHEAD_BYTES = 64 * 1024**2
"""A generous estimate of the tables and bitmaps that are touched."""
_SETTLE_PATIENCE_S = 5.0
_WRITEBACK_LEAST_NS = 1000


class CutEvent(StrEnum):
    """The kind of event at which the power is cut: at the n-th of them."""

    WAL_WRITE = "wal write"
    WAL_FLUSH = "wal flush"
    RELATION_WRITE = "relation write"
    RELATION_FLUSH = "relation flush"
    RENAME = "rename"
    TORN_WRITE = "torn write"
    TORN_PAGE = "torn page"
    TORN_MAP = "torn map"


@dataclass(frozen=True, slots=True)
class DiskModel:
    """How the simulated disk behaves."""

    device: Device | None = None
    """The device whose time it takes; None: it takes no time."""
    tracking: bool = True
    """Whether it can lose power. If not, it only takes time, and needs no memory for old contents."""
    real_flush: bool = False
    """Whether flushes reach the real disk as well."""
    names: Literal["journal", "strict"] = "journal"
    """When created, renamed and removed files are durable: as on ext4 and xfs, or as POSIX guarantees."""
    writeback_s: float | None = 30.0
    """Age at which the kernel writes dirty data by itself (Linux: 30 s); None: never."""
    undo_bytes: int = 1024**3
    """Old contents that can be kept; a run that needs more is void."""
    swallowed: str = ""
    """Files whose path begins like this (``pg_xact/``) are never made durable, although their flush says so:
    a step that is broken on purpose, to see that it is caught."""

    @property
    def writeback_ns(self) -> int:
        """That age for the library, where 0 is never, and names are made durable at a sixth of it."""
        return 0 if self.writeback_s is None else max(_WRITEBACK_LEAST_NS, round(self.writeback_s * 1e9))


@dataclass(frozen=True, slots=True)
class DiskStatus:
    """Counters of a simulated disk."""

    attached: int
    """Programs that have loaded the library."""
    is_cut: bool
    cut_monotonic_ns: int
    """CLOCK_MONOTONIC of the cut, as time.monotonic_ns; 0 before it."""
    sequence: int
    """Number of the last change."""
    undo_bytes_max: int
    """Largest size of the undo log."""
    void: tuple[str, ...]
    """Reasons why no verdict may be drawn from the run; empty when there are none."""
    counts: Mapping[CutEvent, int]
    """Events since the start."""


@dataclass(frozen=True, slots=True)
class UnflushedFile:
    """A file that no flush has covered since a moment."""

    root: Path
    path: str
    changes: int


class SimulatedDisk:
    """Context manager: the disk under ``roots`` (real folders, the data directory first).

    ``state`` is a file that must not exist yet, best in STATE_FOLDER and with a workspace's name, so that it
    is removed with the workspace. ``user`` runs the server's processes (None: ourselves), owns ``roots`` and
    will own the state: all of it is touched with that user's rights alone. Raises DiskError when the
    platform, the space or the filesystem does not allow it.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        model: DiskModel,
        state: Path,
        *,
        user: ServerUser | None = None,
        seed: int = 0,
    ) -> None:
        self.roots = tuple(root.resolve() for root in roots)
        self.graveyards = tuple(root.with_name(f"{root.name}.graveyard") for root in self.roots)
        self.model = model
        self.state = state
        self.seed = seed
        self.user = user
        self._library = state.with_name(f"{state.name}.so")

    def __enter__(self) -> SimulatedDisk:
        source = library()
        self._check_space()
        try:
            # The server's user may not be able to enter the folder that walproof is installed in, and memory
            # is often mounted without the right to execute: the copy lies beside the data.
            self._library = self.roots[0].with_name(f"{self.roots[0].name}.preload.so")
            code = source.read_bytes()
            with acting_as(self.user):
                self._library.write_bytes(code)
                self._library.chmod(0o755)
                self._make_graveyards()
                self._make_state()
        except BaseException as error:
            self.__exit__(None, None, None)
            if isinstance(error, OSError):
                raise DiskError(
                    f'could not prepare the simulated disk under "{self.roots[0]}": {error.strerror}'
                ) from error
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with acting_as(self.user):
            self.state.unlink(missing_ok=True)
            self._library.unlink(missing_ok=True)
            for graveyard in self.graveyards:
                shutil.rmtree(graveyard, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        """What the server's environment needs; its clients must not have it."""
        return {"LD_PRELOAD": str(self._library), STATE_VARIABLE: str(self.state)}

    def check_attached(self) -> None:
        """Make sure, once the server runs, that it has loaded the library. Raises DiskError."""
        if self.status().attached == 0:
            raise DiskError(
                "the server runs without the library of the simulated disk",
                detail=f'expected "{self._library}" to be loaded through LD_PRELOAD',
                hint="A security module or a filesystem mounted with noexec can prevent that.",
            )

    def arm(self, event: CutEvent, count: int) -> None:
        """Cut the power at the ``count``-th such event from now on (1: the next)."""
        assert count > 0, count
        self._arm(event, count, fails=False)

    def arm_failure(self, event: CutEvent, count: int) -> None:
        """Let the ``count``-th flush from now on fail with EIO and lose what it should have written."""
        assert count > 0, count
        assert event in (CutEvent.WAL_FLUSH, CutEvent.RELATION_FLUSH), event
        self._arm(event, count, fails=True)

    def has_triggered(self) -> bool:
        """Whether the armed event has happened."""
        return bool(self._read_status()["has_triggered"])

    def cut(self) -> None:
        """Cut the power now, whatever happens."""
        with acting_as(self.user):
            _native.disk_cut(self.state, time.monotonic_ns())

    def wait_for_cut(self, patience_s: float) -> bool:
        """Whether the armed moment came within that time."""
        deadline = time.monotonic() + patience_s
        while not self.status().is_cut:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return True

    def settle(self) -> None:
        """After the cut: return when no process is inside a call, so that files and log agree.

        Then the server can be killed. Raises DiskError when a process ended inside one.
        """
        assert self.status().is_cut
        deadline = time.monotonic() + _SETTLE_PATIENCE_S
        while self._read_status()["busy"]:
            if time.monotonic() > deadline:
                raise DiskError("the run is void: a server process was killed in the middle of a write")
            time.sleep(0.001)

    def status(self) -> DiskStatus:
        """The counters now."""
        raw = self._read_status()
        return DiskStatus(
            attached=raw["attached"],
            is_cut=raw["is_cut"],
            cut_monotonic_ns=raw["cut_monotonic_ns"],
            sequence=raw["sequence"],
            undo_bytes_max=raw["undo_bytes_max"],
            void=tuple(raw["void"]),
            counts={CutEvent(name): count for name, count in raw["counts"].items()},
        )

    def unflushed(self, sequence: int) -> tuple[UnflushedFile, ...]:
        """Files, by path, with changes up to that number that no flush has covered.

        When the number was taken before a checkpoint began and the checkpoint has ended, each of them is a
        missing fsync, a file whose loss the server can do without, or one that a backend is about to ask a
        flush for. Call it while no process writes.
        """
        files = []
        with acting_as(self.user):
            found = {(row[0], row[1]): row[3] for row in _native.disk_unflushed(self.state, sequence)}
            for root in self.roots:
                for path in sorted(root.rglob("*")):
                    if path.is_symlink() or not path.is_file():
                        continue
                    status = path.stat()
                    changes = found.get((status.st_dev, status.st_ino))
                    if changes is not None:
                        files.append(UnflushedFile(root, str(path.relative_to(root)), changes))
        return tuple(files)

    def _arm(self, event: CutEvent, count: int, *, fails: bool) -> None:
        with acting_as(self.user):
            _native.disk_arm(self.state, _native.disk_events().index(event.value), count, fails)

    def _read_status(self) -> _native._DiskStatus:
        with acting_as(self.user):
            return _native.disk_status(self.state)

    def _check_space(self) -> None:
        try:
            space = os.statvfs(self.state.parent)
        except OSError as error:
            raise DiskError(f'could not use folder "{self.state.parent}": {error.strerror}') from error
        needed = _OVERHEAD_BYTES + (self.model.undo_bytes if self.model.tracking else 0)
        free = space.f_bavail * space.f_frsize
        if free < needed:
            raise DiskError(
                f'"{self.state.parent}" is too small for the simulated disk',
                detail=f"expected {format_bytes(needed)} free, got {format_bytes(free)}",
                hint="Containers get more with --shm-size=2g.",
            )

    def _make_graveyards(self) -> None:
        for root, graveyard in zip(self.roots, self.graveyards, strict=True):
            graveyard.mkdir(mode=0o700)
            probe = graveyard / "probe"
            probe.touch()
            try:
                (graveyard / "probe-link").hardlink_to(probe)
            except OSError as error:
                raise DiskError(
                    f'the filesystem of "{root}" has no hard links: {error.strerror}',
                    hint="Use a folder on ext4, xfs, btrfs or tmpfs.",
                ) from error
            probe.unlink()
            (graveyard / "probe-link").unlink()

    def _make_state(self) -> None:
        model, device = self.model, self.model.device
        _native.disk_create(
            self.state,
            [
                (os.fsencode(root), os.fsencode(graveyard))
                for root, graveyard in zip(self.roots, self.graveyards, strict=True)
            ],
            tracking=model.tracking,
            real_flush=model.real_flush,
            strict=model.names == "strict",
            writeback_ns=model.writeback_ns,
            flush_ns=0 if device is None else round(device.flush_s * 1e9),
            write_bytes_per_s=0 if device is None else device.write_bytes_per_s or 0,
            seed=self.seed,
            undo_bytes=model.undo_bytes if model.tracking else 4096,
            swallowed=os.fsencode(model.swallowed),
        )
        self.state.chmod(0o600)
