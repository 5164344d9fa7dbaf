"""What goes wrong in the thread that records a load is not taken for a recording."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from tests.facts.plans import plan
from walproof.errors import ProbeError
from walproof.lab.tune import recording
from walproof.postgres.cluster import Cluster
from walproof.wal.recording import Recording

ENDED_EARLY = cast(Recording, SimpleNamespace(ended_because="disk"))


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize(
    ("end", "kind", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), ProbeError, "No space left"),
        (psycopg.OperationalError("gone"), ProbeError, "could not be recorded"),
        (RuntimeError("ours"), RuntimeError, "ours"),
        (ENDED_EARLY, ProbeError, "ended early: the disk of .* is nearly full"),
    ],
)
def test_a_load_whose_recording_failed_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    end: Exception | Recording,
    kind: type[Exception],
    says: str,
    has_begun: bool,
) -> None:
    def captured(_order: object, _watch: object, _is_over: object, tell: Any) -> Recording:
        if has_begun:
            tell(None)
        if isinstance(end, Exception):
            raise end
        return end

    monkeypatch.setattr(recording, "capture", captured)
    cluster = cast(Cluster, SimpleNamespace(conninfo=""))
    with pytest.raises(kind, match=says), recording._Receiver(cluster, tmp_path, plan()) as receiver:
        receiver.wait_until_streaming()


@pytest.mark.parametrize(
    ("given", "level", "senders"),
    [
        ({}, "replica", "10"),
        ({"wal_level": "minimal", "max_wal_senders": "0"}, "replica", "10"),
        ({"wal_level": "logical"}, "logical", "10"),
        ({"wal_level": "Logical", "max_wal_senders": "3"}, "Logical", "3"),
        ({"wal_level": "hot_standby", "max_wal_senders": "00"}, "hot_standby", "10"),
    ],
)
def test_the_recorded_server_writes_what_every_configuration_writes(
    given: dict[str, str], level: str, senders: str
) -> None:
    """With wal_level = logical updates log more, and what is judged from the recording is more."""
    found = recording.recorded_settings({"work_mem": "8MB", **given})
    assert found == {"work_mem": "8MB", "wal_level": level, "max_wal_senders": senders}
