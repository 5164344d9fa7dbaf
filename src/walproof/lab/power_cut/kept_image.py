"""Failing images that are kept: the bytes that the disk could have held, and what was promised about them.

CASE/data CASE/wal CASE/space   the image before recovery; links in it lead where it lies
CASE/case.json                  the verdict, the settings, and every acknowledged commit

A kept image belongs to whoever ran walproof. It is made, and used again, as a copy in a workspace.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from walproof.disk.image import Survival, build_image
from walproof.disk.simulated import SimulatedDisk
from walproof.errors import DiskError
from walproof.facts import CheckedImage, CutConditions, CutFacts, Install
from walproof.facts.codec import from_json, to_json
from walproof.files import private_folder, write_whole
from walproof.lab.power_cut.verdict import FOLDERS
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.copying import copy_tree
from walproof.privilege.folders import check_own
from walproof.privilege.user import ServerUser
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
    has_pgbench_sums: bool = True
    """See :func:`walproof.workload.books.check_books`."""
    has_own_schema: bool = False
    """Whether the ledger's tables are in a schema of their own; an older image has them in ``public``."""


def keep_image(
    folder: Path, disk: SimulatedDisk, survival: Survival, case: KeptCase, workspace: Workspace
) -> CheckedImage:
    """Build the case's image once more, into a new folder below ``folder``; returns it with its place.

    Raises DiskError; then the folder is not there.
    """
    name = f"{case.cut.seed:x}-{case.image.number}"
    # The same seed again is another case, because the load had another timing.
    again = (f"{name}.{number}" for number in count(2))
    folder = folder.absolute()
    home = folder / name
    try:
        home = folder / next(each for each in chain([name], again) if not (folder / each).exists())
        built = workspace.make_folder(f"kept-{name}")
        try:
            build_image(disk, [built / name for name in FOLDERS], case.image.seed, survival)
            return _keep_built(built, home, case, workspace.user)
        finally:
            workspace.remove_folder(built)
    except OSError as error:
        raise DiskError(f'could not keep an image in "{home}": {error.strerror}') from error


def _keep_built(built: Path, home: Path, case: KeptCase, user: ServerUser | None) -> CheckedImage:
    """Copy an image that ``user`` owns into the new folder ``home``. Raises DiskError, OSError; then the
    folder is not there."""
    private_folder(home.parent)
    home.mkdir(mode=0o700)
    try:
        for name in FOLDERS:
            copy_tree(built / name, home / name, reader=user, writer=None)
        _lead_links(home, built)
        kept = replace(case.image, kept=str(home))
        write_whole(home / _CASE, to_json(replace(case, image=kept)))
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    return kept


def read_case(folder: Path) -> KeptCase:
    """What is known about a kept image. Raises DiskError, also for somebody else's, or StoreError.

    Which programs it was made with is told, not followed.
    """
    path = folder / _CASE
    try:
        check_own(folder)
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DiskError(
            f'"{folder}" is not a kept image',
            detail=f'could not read "{path}": {error.strerror}',
            hint="walproof run STUDY --keep-failures DIR keeps failing images in folders of DIR.",
        ) from error
    return from_json(KeptCase, text)


def copy_case(case: KeptCase, folder: Path, target: Path, user: ServerUser | None) -> None:
    """Copy a kept image's folders into ``target``, which is ``user``'s, and lead its links there.

    ``folder`` need not be where it was kept. Raises DiskError, also for a link that leads out of the image.
    """
    try:
        for name in FOLDERS:
            copy_tree(folder / name, target / name, reader=None, writer=user)
        with acting_as(user):
            _lead_links(target, Path(case.image.kept or folder))
    except OSError as error:
        raise DiskError(f'could not copy "{folder}": {error.strerror}') from error


def _lead_links(folder: Path, before: Path) -> None:
    """Make links into the image, which was in ``before``, lead into its copy, ``folder``. Raises
    DiskError."""
    for name in FOLDERS:
        for link in [path for path in (folder / name).rglob("*") if path.is_symlink()]:
            old = link.readlink()
            if not old.is_relative_to(before) or ".." in old.parts:
                raise DiskError(
                    f'a link of the image leads out of it: "{link.relative_to(folder)}"',
                    detail=f'expected a place in "{before}", got "{old}"',
                )
            link.unlink()
            link.symlink_to(folder / old.relative_to(before))
