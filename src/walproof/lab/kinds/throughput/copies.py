"""Copies of a template that several starts of servers use, one after the other.

Each start of servers that take turns needs a data directory for each server, and copying them takes longer
than the slices. pgbench's own load leaves its tables as good as new (:func:`tidy`), so a copy goes back on
a shelf after a start that ended well. A server gets any of them: were one slower, say by its place on the
disk, it would not be the same variant's in each start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from walproof.errors import DiskError, WorkloadError, one_line
from walproof.postgres import template as templates
from walproof.postgres.workspace import Workspace
from walproof.privilege.acting import acting_as

_TIDY = (
    "SET synchronous_commit = off",
    "TRUNCATE pgbench_history",
    "VACUUM pgbench_accounts, pgbench_branches, pgbench_tellers",
)


@dataclass(frozen=True, slots=True)
class Copies:
    """Data directories on a shelf in the workspace, which goes with it."""

    workspace: Workspace
    _shelf: dict[Path, list[Path]] = field(default_factory=dict)
    """Template -> its copies that are free."""

    def fetch(self, template: Path, folder: Path) -> None:
        """Put a copy of the template's data directory into ``folder``. Raises DiskError."""
        free = self._shelf.get(template)
        if not free:
            templates.clone(template, folder)
            return
        kept = free.pop(0)
        self._move(kept, folder)
        self.workspace.remove_folder(kept)
        # What a server with fsync=off left, as after a clone.
        templates.sync(folder)

    def keep(self, template: Path, folder: Path) -> None:
        """Take back the data directory of a server that was shut down in good order. Raises DiskError."""
        kept = self.workspace.make_folder(f"kept-{folder.name}")
        self._move(folder, kept)
        self._shelf.setdefault(template, []).append(kept)

    def _move(self, source: Path, target: Path) -> None:
        try:
            with acting_as(self.workspace.user):
                (source / "data").rename(target / "data")
        except OSError as error:
            raise DiskError(f'could not move "{source / "data"}": {error.strerror}') from error


def tidy(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Remove what pgbench's load left behind: rows of the history, dead rows. Raises WorkloadError."""
    try:
        for command in _TIDY:
            connection.execute(command)
    except psycopg.Error as error:
        raise WorkloadError(f"could not tidy pgbench's tables: {one_line(error)}") from error
