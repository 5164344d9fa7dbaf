"""Sessions that evict dirty pages are told of where that is what the counters count, and memory is small."""

from __future__ import annotations

import pytest

from tests.advise.server.windows import found, healthy, with_growth, with_settings
from walproof.advise.server.advice import Advice, Fine, Unseen


@pytest.mark.parametrize(
    ("version", "buffers", "pages", "is_advised"),
    [
        ("17.11", "128MB", 60_000.0, True),
        ("17.11", "8GB", 60_000.0, False),
        ("17.11", "128MB", 30_000.0, False),
        # They hold the pages of tables that grow.
        ("16.14", "128MB", 60_000.0, False),
    ],
)
def test_sessions_that_write_most_pages_need_more_buffers(
    version: str, buffers: str, pages: float, is_advised: bool
) -> None:
    window = with_settings(healthy(version), shared_buffers=buffers)
    grown = with_growth(window, backend_buffers=pages, backend_fsyncs=0.0, checkpoint_buffers=40_000.0)
    told = found("writes of sessions", grown)
    assert isinstance(told, Advice if is_advised else Fine), told
    if isinstance(told, Advice):
        assert "60,000 pages" in told.evidence[0]
        assert "shared_buffers is 128MB" in told.evidence[0]


def test_what_was_not_counted_is_not_fine() -> None:
    assert isinstance(found("writes of sessions", healthy()), Unseen)
