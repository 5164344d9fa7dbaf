"""What was measured to learn what recovery costs on a machine, and the JSON that keeps it.

    <data folder>/recovery/NAME.json    one for each machine and version

The data folder is ``WALPROOF_DATA``; else ``/var/lib/walproof`` for root; else ``walproof`` in
``XDG_DATA_HOME`` or ``~/.local/share``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median

from walproof.checked import checked, is_version, parsed
from walproof.errors import StoreError
from walproof.files import expanded, private_folder, regular_text, write_whole

_FORMAT = 10


@dataclass(frozen=True, slots=True)
class Machine:
    """What coefficients belong to: another machine, or another server, has others."""

    cpu: str
    cores: int
    version: str
    """Version of the server that recovered: ``15.18``."""
    page_bytes: int
    """Of memory."""
    huge_pages: bool
    """Whether the server got huge pages for shared_buffers."""
    data_checksums: bool

    def differences(self, other: Machine) -> tuple[str, ...]:
        """One line for each property in which ``other`` differs."""
        mine, its = asdict(self), asdict(other)
        return tuple(f"{name}: {mine[name]} -> {its[name]}" for name in mine if mine[name] != its[name])


@dataclass(frozen=True, slots=True)
class PhaseReplay:
    """Replaying one phase of the calibration load once."""

    phase: str
    buffers: int
    prefetch: bool
    """Whether recovery_prefetch was on."""
    cpu_s: float
    work: Mapping[str, float]
    """Quantities of ``walproof.wal.recovery`` that the phase adds, by name."""


@dataclass(frozen=True, slots=True)
class ColdReplay:
    """Replaying one phase of the calibration load once, with nothing in the kernel's cache."""

    phase: str
    buffers: int
    prefetch: bool
    """Whether recovery_prefetch was on."""
    cpu_s: float
    warm_cpu_s: float
    """CPU time of the same phase with a warm cache and the same recovery_prefetch."""
    wal_bytes: float
    """WAL read from the disk, as predicted."""
    requests: float
    """Disk reads for pages, in addition to the WAL, as predicted."""


@dataclass(frozen=True, slots=True)
class CheckpointRun:
    """One checkpoint at the end of recovery."""

    phase: str
    """Calibration phase after which the server was killed."""
    buffers: int
    """Size of shared_buffers."""
    written: int
    """Buffers that it wrote, in the server's words."""
    resident: float
    spilled: float
    runs: float
    is_cold: bool
    """Whether recovery began with a cold cache."""
    segments: int
    """Segments of WAL that it removed or recycled; 0 where they were not its own."""
    pages_s: float
    """Time to write and to flush its pages, in seconds."""
    rest_s: float
    """Time of the checkpoint apart from writing and flushing pages, in seconds."""


@dataclass(frozen=True, slots=True)
class SyncCosts:
    """What the sync of a data directory costs before redo."""

    file_us: float
    """Microseconds for a file that is on the disk: opened twice, flushed once."""
    flush_us: float
    """Microseconds in addition, for a file with a page that is not on the disk."""
    mb_us: float
    """Microseconds for a MB of many pages that are not on the disk."""
    filesystem_us: float
    """Microseconds of syncfs() on a file system with one dirty page."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything that was measured."""

    machine: Machine
    made_at: float
    """Unix time."""
    phases: tuple[PhaseReplay, ...]
    cold: tuple[ColdReplay, ...]
    checkpoints: tuple[CheckpointRun, ...]
    read_iops: float | None
    """Random reads of 8 kB a second, 16 at a time."""
    read_latency_us: float | None
    """Latency of one random read of 8 kB."""
    read_ahead_kb: int
    """Most that the kernel reads from that disk at once (/sys/block/DISK/queue/read_ahead_kb)."""
    fresh_touch_us: float
    """First use of 8 kB of memory that was free when the calibration began. A virtual machine's host may have
    taken it back."""
    touch_us: float
    """The same, shortly after the memory had been in use."""
    sync: SyncCosts | None = None
    """None in calibrations made before it was measured."""


def pooled(calibrations: Sequence[Calibration]) -> Calibration:
    """Combine calibrations as if all had been measured in one.

    On a machine whose speed changes, the costs are then those of more than one hour.

    Raises StoreError: they are of different machines or servers.
    """
    newest = max(calibrations, key=lambda calibration: calibration.made_at)
    for calibration in calibrations:
        unlike = newest.machine.differences(calibration.machine)
        if unlike:
            raise StoreError(
                "calibrations of different machines cannot be combined",
                detail="\n".join(unlike),
                hint="Each can be used by itself.",
            )
    return replace(
        newest,
        phases=tuple(phase for calibration in calibrations for phase in calibration.phases),
        cold=tuple(replay for calibration in calibrations for replay in calibration.cold),
        checkpoints=tuple(run for calibration in calibrations for run in calibration.checkpoints),
        read_iops=_median(calibration.read_iops for calibration in calibrations),
        read_latency_us=_median(calibration.read_latency_us for calibration in calibrations),
        fresh_touch_us=max(calibration.fresh_touch_us for calibration in calibrations),
        touch_us=median(calibration.touch_us for calibration in calibrations),
        sync=_pooled_sync([calibration.sync for calibration in calibrations if calibration.sync is not None]),
    )


def _pooled_sync(costs: Sequence[SyncCosts]) -> SyncCosts | None:
    if not costs:
        return None
    names = [field.name for field in fields(SyncCosts)]
    return SyncCosts(**{name: median(getattr(cost, name) for cost in costs) for name in names})


def data_folder() -> Path:
    """The folder for measurements that are kept for good; it may not exist yet. Raises DiskError where
    there is no home for it."""
    given = os.environ.get("WALPROOF_DATA")
    if given:
        return expanded(Path(given)).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/walproof")
    xdg = os.environ.get("XDG_DATA_HOME", "")
    base = Path(xdg) if Path(xdg).is_absolute() else expanded(Path("~")) / ".local" / "share"
    return base / "walproof"


def calibration_path(cpu: str, cores: int, version: str) -> Path:
    """The file of that machine and server in the data folder."""
    name = re.sub(r"[^a-z0-9.]+", "-", f"{cpu}-{cores}-pg{version}".lower())
    return data_folder() / "recovery" / f"{name.strip('-')}.json"


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Keep it. Raises StoreError."""
    text = json.dumps({"format": _FORMAT, **asdict(calibration)}, indent=1) + "\n"
    try:
        private_folder(path.parent)
        write_whole(path, text)
    except OSError as error:
        raise StoreError(
            f'could not write "{path}": {error.strerror}', hint="Name another file with --to."
        ) from error


def read_calibration(path: Path) -> Calibration:
    """Read it back. Raises StoreError."""
    try:
        data = parsed(regular_text(path))
        written = data["format"]
        if written != _FORMAT:
            raise StoreError(
                f'"{path}" was written by another version of walproof',
                detail=f"expected format {_FORMAT}, got {str(written)[:40]}",
                hint="Calibrate again.",
            )
        return _checked(data)
    except OSError as error:
        raise StoreError(
            f'could not read "{path}": {error.strerror}', hint='"walproof recovery calibrate" makes one.'
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        missing = f'It has no "{error.args[0]}".' if isinstance(error, KeyError) else None
        raise StoreError(
            f'"{path}" is not a calibration',
            detail=missing or str(error),
            hint='"walproof recovery calibrate" makes one; name its file.',
        ) from error


def _checked(data: object) -> Calibration:
    calibration = checked(Calibration, data)
    version = calibration.machine.version
    if not is_version(version):
        raise ValueError(f'machine.version: expected a version, got "{version[:40]}"')
    return calibration


def find_calibrations() -> tuple[tuple[Path, Calibration], ...]:
    """All readable calibrations in the data folder, newest first."""
    found = []
    for path in sorted((data_folder() / "recovery").glob("*.json")):
        try:
            found.append((path, read_calibration(path)))
        except StoreError:
            continue  # of another version, or damaged: not one to be used
    return tuple(sorted(found, key=lambda pair: -pair[1].made_at))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
