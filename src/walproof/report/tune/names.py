"""The name of a configuration in reports."""

from __future__ import annotations

from walproof.facts.tuning import Candidate


def name_of(candidate: Candidate) -> str:
    """``commit_delay=100, wal_compression=lz4``, or ``default``."""
    return ", ".join(f"{name}={value}" for name, value in candidate.settings) or "default"
