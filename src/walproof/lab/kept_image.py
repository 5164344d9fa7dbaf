"""Failing images that are kept: the bytes that the disk could have held, and what was promised about them.

CASE/data CASE/wal CASE/space   the image before recovery; links in it lead where it lies
CASE/case.json                  the verdict, the settings, and every acknowledged commit
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from walproof.disk.image import Survival, build_image
from walproof.disk.simulated import SimulatedDisk
from walproof.errors import DiskError
from walproof.facts import CheckedImage, CutConditions, CutFacts, Install
from walproof.facts.codec import from_json, to_json
from walproof.lab.verdict import FOLDERS
from walproof.workload.ledger import Record

_CASE = "case.json"


@dataclass(frozen=True, slots=True)
class KeptCase:
    """A kept image and everything that its verdict followed from."""

    install: Install
    settings: dict[str, str]
    conditions: CutConditions
    cut: CutFacts
    image: CheckedImage
    cut_monotonic_ns: int
    sizes: dict[str, int]
    """See :func:`walproof.disk.image.durable_sizes`."""
    record: Record


def keep_image(folder: Path, disk: SimulatedDisk, survival: Survival, case: KeptCase) -> CheckedImage:
    """Build the case's image once more, into a new folder below ``folder``; returns it with its place.

    Raises DiskError.
    """
    name = f"{case.cut.seed:x}-{case.image.number}"
    # The same seed again is another case: the load had another timing.
    again = (f"{name}.{number}" for number in count(2))
    home = folder / next(one for one in chain([name], again) if not (folder / one).exists())
    try:
        home.mkdir(parents=True)
    except OSError as error:
        raise DiskError(f'could not keep an image in "{home}": {error.strerror}') from error
    build_image(disk, [home / name for name in FOLDERS], case.image.seed, survival)
    kept = replace(case.image, kept=str(home))
    (home / _CASE).write_text(to_json(replace(case, image=kept)), encoding="utf-8")
    return kept


def read_case(folder: Path) -> KeptCase:
    """What is known about a kept image. Raises DiskError or StoreError."""
    path = folder / _CASE
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DiskError(
            f'"{folder}" is not a kept image',
            detail=f'could not read "{path}": {error.strerror}',
            hint="walproof run STUDY --keep-failures DIR keeps failing images in folders of DIR.",
        ) from error
    return from_json(KeptCase, text)


def copy_case(folder: Path, target: Path, owner: tuple[int, int] | None) -> None:
    """Copy a kept image's folders into ``target`` and lead its links there. Raises DiskError."""
    for name in FOLDERS:
        done = subprocess.run(
            ["cp", "--archive", "--reflink=auto", str(folder / name), str(target)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise DiskError(f'could not copy "{folder / name}"', detail=done.stderr.strip() or None)
    for link in [path for path in (target / "data").rglob("*") if path.is_symlink()]:
        old = link.readlink()
        if old.is_relative_to(folder):
            link.unlink()
            link.symlink_to(target / old.relative_to(folder))
    if owner is not None:
        for path in target.rglob("*"):
            os.chown(path, *owner, follow_symlinks=False)
