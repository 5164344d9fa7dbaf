"""What the kernel does for replay, measured by itself: a disk that fails is named, and nothing is left."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from walproof.errors import DiskError
from walproof.lab.recovery.disk_reads import random_pages
from walproof.lab.recovery.kernel_work import cached_pages

pytestmark = pytest.mark.live


def test_both_calls_take_time_for_each_page(tmp_path: Path) -> None:
    asked, read = cached_pages(tmp_path, 64)
    assert asked.work["prefetches"] == read.work["reads"] == read.work["far_reads"] == 128
    assert sum(asked.work.values()) == 128
    assert sum(read.work.values()) == 256
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["posix_fadvise", "preadv", "fsync"])
def test_a_disk_that_fails_is_named(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(DiskError, match=os.strerror(errno.EIO)):
        cached_pages(tmp_path, 8)
    assert list(tmp_path.iterdir()) == []


def test_pages_are_there_and_then_gone(tmp_path: Path) -> None:
    with random_pages(tmp_path, 3) as descriptor:
        pages = [os.pread(descriptor, 8192, page * 8192) for page in range(4)]
    assert [len(page) for page in pages] == [8192, 8192, 8192, 0]
    assert len(set(pages)) == 4
    assert list(tmp_path.iterdir()) == []
