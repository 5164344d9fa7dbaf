"""Moments at which power can be cut: both languages have the same."""

from __future__ import annotations

from walproof import _native
from walproof.disk.simulated import CutEvent


def test_every_event_is_known_on_both_sides() -> None:
    """A name is armed by its place in the native list."""
    assert sorted(event.value for event in CutEvent) == sorted(_native.disk_events())
