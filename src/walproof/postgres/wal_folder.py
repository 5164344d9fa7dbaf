"""pg_wal in another folder, as on a disk of its own: moved out of a clone, with a link in its place.

It is a workspace of its own, so that it is removed with the run however that ends.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from walproof.errors import DiskError
from walproof.files import is_folder
from walproof.postgres.reaper import WAL_WORK
from walproof.postgres.template import sync
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as
from walproof.privilege.user import ServerUser


def check_wal_folder(folder: Path, work: Path) -> None:
    """Raises DiskError for what is not a folder, or lies inside ``work``, where data directories are. Whether
    it can be written, and reached by the servers' user, is found out by its workspace."""
    if not is_folder(folder):
        raise DiskError(
            f'the folder for WAL is not a folder: "{folder}"',
            hint="Make it, on the disk that WAL is to be on.",
        )
    if folder.resolve().is_relative_to(work.resolve()):
        raise DiskError(
            f'the folder for WAL lies inside the folder of the clusters: "{folder}"',
            detail=f'Clusters live in "{work}".',
            hint="Name a folder on another disk.",
        )


@contextmanager
def wal_workspace(folder: Path, user: ServerUser | None) -> Iterator[Workspace]:
    """A workspace in ``folder``, of which nothing is left in the end. Raises DiskError."""
    with ExitStack() as stack:
        try:
            workspace = stack.enter_context(Workspace(folder / WAL_WORK, user))
        except DiskError as error:
            hint = None if error.hint is None else error.hint.replace("--on", "--waldir")
            raise DiskError(error.message, detail=error.detail, hint=hint) from error
        yield workspace


@contextmanager
def wal_moved(data: Path, workspace: Workspace | None) -> Iterator[None]:
    """Move pg_wal of a stopped cluster into ``workspace`` for a while; None: leave it. Raises DiskError."""
    if workspace is None:
        yield
        return
    folder = workspace.make_folder(f"wal-{data.parent.name}")
    try:
        try:
            with acting_as(workspace.user):
                shutil.move(data / "pg_wal", folder / "pg_wal")
                (data / "pg_wal").symlink_to(folder / "pg_wal")
        except OSError as error:
            raise DiskError(f'could not move WAL into "{folder}": {_reason(error)}') from error
        sync(folder)
        yield
    finally:
        workspace.remove_folder(folder)


def _reason(error: OSError) -> str:
    listed = error.args[0] if error.args else None
    if isinstance(error, shutil.Error) and isinstance(listed, list) and listed:
        # To another file system each file is copied: [(from, to, why), ...].
        return str(listed[0][2])
    return error.strerror or str(error)
