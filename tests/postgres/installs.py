"""Folders that look like installs, for versions that no machine has."""

from __future__ import annotations

from pathlib import Path


def put_install(prefix: Path, version: str, *programs: str) -> Path:
    """A folder that looks like an install: its programs can only say their version."""
    (prefix / "bin").mkdir(parents=True)
    for program in ("postgres", "initdb", *programs):
        path = prefix / "bin" / program
        path.write_text(f"#!/bin/sh\necho '{program} (PostgreSQL) {version}'\n")
        path.chmod(0o755)
    return prefix / "bin"
