"""Crash images: folders as the disk could hold them after the power was cut.

One cut gives many images. Which sectors, sizes and names survive is decided in the Rust crate walproof-disk,
from a seed; here the live folders are read, and the plan is carried out.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from walproof import _native
from walproof.disk.simulated import SimulatedDisk
from walproof.errors import DiskError
from walproof.privilege.acting import acting_as

_Row = tuple[int, bytes, str, int, int, int, bytes]


@dataclass(frozen=True, slots=True)
class Survival:
    """What survives of what was not flushed."""

    data: Literal["nothing", "everything", "random", "by age"] = "random"
    """``everything`` is what kill -9 leaves; with ``by age``, older writes are likelier to survive."""
    keep: float = 0.5
    """For ``random``: the probability that a unit survives; the others hold an older version."""
    unit_bytes: Literal[512, 4096, 8192] = 512
    """What is written as a whole: a sector, a page of the kernel, or a whole page of PostgreSQL."""

    @property
    def text(self) -> str:
        """``random 0.5 of 512 B``."""
        data = f"random {self.keep:g}" if self.data == "random" else self.data
        return f"{data} of {self.unit_bytes} B"


def build_image(disk: SimulatedDisk, targets: Sequence[Path], seed: int, survival: Survival) -> None:
    """Build one image of a disk that is cut and settled, and whose processes are gone.

    ``targets`` are folders that do not exist yet, one for each root, in a folder of the disk's user. Raises
    DiskError: the run is void, a file cannot be read or written, or the state, which the server can write,
    names one outside of the roots.
    """
    assert len(targets) == len(disk.roots)
    status = disk.status()
    assert status.is_cut
    if status.void:
        raise DiskError("the run is void: " + "; ".join(status.void))
    try:
        with acting_as(disk.user):
            live = [row for number, root in enumerate(disk.roots) for row in _read_tree(number, root)]
            plan = _native.disk_image(
                disk.state,
                live,
                _kept(disk),
                seed=seed,
                survival=survival.data,
                keep=survival.keep,
                unit_bytes=survival.unit_bytes,
            )
            _carry_out(disk, targets, plan)
    except OSError as error:
        raise DiskError(f'could not build a crash image in "{targets[0]}": {error.strerror}') from error


def durable_sizes(disk: SimulatedDisk) -> dict[str, int]:
    """How many bytes of each file are there whatever survives. Only files in doubt are listed.

    Keys are root number and path (``0/base/5/16384``); 0 where even the name may be lost. Raises DiskError.
    """
    with acting_as(disk.user):
        live = [row for number, root in enumerate(disk.roots) for row in _read_tree(number, root)]
        plan = _native.disk_image(
            disk.state, live, _kept(disk), seed=0, survival="nothing", keep=0.0, unit_bytes=512
        )
    there = {
        f"{root}/{os.fsdecode(path)}": None if content is None else content[0]
        for root, path, _, _, _, content in plan["files"]
    }
    sizes = {name: size for name, size in there.items() if size is not None}
    for root, path, kind, *_ in live:
        name = f"{root}/{os.fsdecode(path)}"
        if kind == "f" and name not in there:
            sizes[name] = 0
    return sizes


def _read_tree(number: int, root: Path) -> Iterator[_Row]:
    """Folders, links and files below a root; the root's own folder is an empty path."""
    status = root.stat()
    yield number, b"", "d", status.st_dev, status.st_ino, 0, b""
    base = os.fsencode(root)
    for folder, names, files in os.walk(base):
        for name in [*names, *files]:
            path = os.path.join(folder, name)  # noqa: PTH118 - bytes: a name need not be UTF-8
            status = os.lstat(path)
            below = os.path.relpath(path, base)
            if stat.S_ISLNK(status.st_mode):
                yield number, below, "l", status.st_dev, status.st_ino, 0, os.readlink(path)  # noqa: PTH115 - bytes
            elif stat.S_ISDIR(status.st_mode):
                yield number, below, "d", status.st_dev, status.st_ino, 0, b""
            elif stat.S_ISREG(status.st_mode):
                yield number, below, "f", status.st_dev, status.st_ino, status.st_size, b""


def _kept(disk: SimulatedDisk) -> list[tuple[int, int, int]]:
    rows = []
    for graveyard in disk.graveyards:
        for path in graveyard.iterdir():
            status = path.stat()
            rows.append((status.st_dev, status.st_ino, status.st_size))
    return rows


def _carry_out(disk: SimulatedDisk, targets: Sequence[Path], plan: _native._DiskImage) -> None:
    made: dict[tuple[int, bool, bytes], Path] = {}
    for root, path in plan["folders"]:
        image_path(targets[root], path).mkdir(mode=0o700)
    for root, path, target in plan["symlinks"]:
        image_path(targets[root], path).symlink_to(_moved(disk, targets, Path(os.fsdecode(target))))
    for root, path, home, is_kept, name, content in plan["files"]:
        new = image_path(targets[root], path)
        source = image_path((disk.graveyards if is_kept else disk.roots)[home], name)
        first = made.setdefault((home, is_kept, name), new)
        if first is not new:
            new.hardlink_to(first)
            continue
        shutil.copyfile(source, new)
        shutil.copymode(source, new)
        if content is None:
            continue
        size, pieces = content
        with new.open("r+b") as file:
            file.truncate(size)
            for at, data, side in pieces:
                if side is not None:
                    with image_path(disk.graveyards[root], os.fsencode(side[0])).open("rb") as kept:
                        kept.seek(side[1])
                        data = kept.read(side[2])
                assert data is not None
                file.seek(at)
                file.write(data)
    # The machine was restarted: if there is a process with that number, it is another one.
    (targets[0] / "postmaster.pid").unlink(missing_ok=True)


def image_path(folder: Path, path: bytes) -> Path:
    """A path of the state, which the server can write, below ``folder``. Raises DiskError for any other."""
    below = Path(os.fsdecode(path))
    if below.is_absolute() or ".." in below.parts:
        raise DiskError(
            "the run is void: the state of the simulated disk names a file outside of it",
            detail=f'expected a path below "{folder}", got "{below}"',
        )
    return folder / below


def _moved(disk: SimulatedDisk, targets: Sequence[Path], target: Path) -> Path:
    """Where a symbolic link leads in the image: into the image's folders, where it led into the disk's."""
    for root, new in zip(disk.roots, targets, strict=True):
        if target.is_relative_to(root):
            return new / target.relative_to(root)
    return target
