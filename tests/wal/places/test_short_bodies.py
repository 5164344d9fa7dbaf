"""A store that sends less than it should is asked again, and not waited for after the last time."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import obstore
import pytest

from walproof.wal.places import store
from walproof.wal.places.failures import ObjectError
from walproof.wal.places.store import ObjectStore


@pytest.mark.parametrize(("bodies", "waits_s"), [([3], []), ([1, 3], [0.1]), ([1] * 4, [0.1, 0.2, 0.4])])
def test_there_is_a_wait_before_each_further_body(
    monkeypatch: pytest.MonkeyPatch, bodies: list[int], waits_s: list[float]
) -> None:
    sent, slept = iter(bodies), list[float]()

    def get(*_: Any, **__: Any) -> SimpleNamespace:
        body = bytes(next(sent))
        return SimpleNamespace(meta={"size": 3}, bytes=lambda: SimpleNamespace(to_bytes=lambda: body))

    monkeypatch.setattr(store, "open_client", lambda *_: None)
    monkeypatch.setattr(obstore, "get", get)
    bucket = ObjectStore("s3", "bucket")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(time, "sleep", slept.append)
            if bodies[-1] == 3:
                assert bucket.fetch("key", 0, 3) == bytes(3)
            else:
                with pytest.raises(ObjectError, match="sent 1 bytes, expected 3, 4 times"):
                    bucket.fetch("key", 0, 3)
    finally:
        bucket.close()
    assert slept == waits_s
