"""The disk of the results is full while a run is stored: what is stored stays, and the run goes on later."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.facts.plans import ENVIRONMENT, SERIES, plan, trial
from walproof.errors import StoreError
from walproof.facts.store import Store


@contextmanager
def _no_file_grows(folder: Path) -> Iterator[None]:
    """Python ignores SIGXFSZ, so that writes beyond fail as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(path.stat().st_size for path in folder.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_found_no_room_is_stored_later(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    run = store.add_run(plan(), ("walproof", "run", "example"), ENVIRONMENT, "1.0")
    store.add_trial(run.id, trial(1), [SERIES])
    large = replace(trial(2), server_log="x" * (1 << 20))
    with _no_file_grows(tmp_path), pytest.raises(StoreError, match="cannot be written") as caught:
        store.add_trial(run.id, large)
    assert "--out and --store name another place" in str(caught.value.hint)
    with _no_file_grows(tmp_path), pytest.raises(StoreError, match="cannot be written"):
        store.finish_run(run.id)
    assert store.trials(run.id) == (trial(1),)
    assert store.run(run.id) == run
    store.add_trial(run.id, large)
    store.finish_run(run.id)
    store.close()
    again = Store(tmp_path / "store.sqlite")
    assert again.trials(run.id) == (trial(1), large)
    assert again.series(run.id) == (SERIES,)
    assert again.run(run.id).finished_at is not None
    again.close()
