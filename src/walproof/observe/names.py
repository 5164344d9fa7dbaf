"""Names of the relations that files belong to, read again in a thread when new files are met."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from walproof.errors import ConninfoError, ProbeError
from walproof.observe.leaving import ObserverThread
from walproof.probe.relations import read_relations
from walproof.wal.relations import Relation

_REST_S = 60.0
"""Between two readings of the catalogs."""

Place = tuple[int, int, int]


class RelationNames(ObserverThread):
    """Context manager: reads the catalogs of every database that the role may connect to."""

    def __init__(self, conninfo: str) -> None:
        super().__init__("walproof-names")
        self._conninfo = conninfo
        self._wanted = threading.Event()
        self._wanted.set()
        self.by_place: Mapping[Place, Relation] = {}
        """(tablespace, database, file number) -> relation."""
        self.lack: str | None = None
        """Why they could not be read last time."""

    def want(self) -> None:
        """Note that somebody met a file without a name."""
        self._check()
        self._wanted.set()

    def _wake(self) -> None:
        self._wanted.set()

    def _observe(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._stopping.is_set():
                return
            try:
                self.by_place = read_relations(self._conninfo).by_place()
                self.lack = None
            except (ProbeError, ConninfoError) as error:
                self.lack = error.detail or error.message
            if self._stopping.wait(_REST_S):
                return
