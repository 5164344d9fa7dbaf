"""Names of the relations that files belong to, read again in a thread when new files are met."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from walproof.errors import ConninfoError, ProbeError
from walproof.probe.relations import read_relations
from walproof.wal.relations import Relation

_REST_S = 60.0
"""Between two readings of the catalogs."""

Place = tuple[int, int, int]


class RelationNames:
    """Context manager: reads the catalogs of every database that the role may connect to."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="walproof-names", daemon=True)
        self._fault: BaseException | None = None
        self.by_place: Mapping[Place, Relation] = {}
        """(tablespace, database, file number) -> relation."""
        self.lack: str | None = None
        """Why they could not be read last time."""

    def __enter__(self) -> RelationNames:
        self._wanted.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.join(2.0)

    def stop(self) -> None:
        """End soon; nobody waits for that."""
        self._stopping.set()
        self._wanted.set()

    def join(self, patience_s: float) -> None:
        """Wait for the end, no longer than that: a session that waits for a dead network ends with the
        process."""
        self._thread.join(patience_s)

    def want(self) -> None:
        """Note that somebody met a file without a name."""
        if self._fault is not None:
            raise self._fault
        self._wanted.set()

    def _run(self) -> None:
        try:
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
        except BaseException as fault:  # ours: raised again by want()
            self._fault = fault
