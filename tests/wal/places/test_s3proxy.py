"""A second server that speaks S3 and shares no code with the first: S3Proxy, over a folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from bench.objects.equality import compare
from bench.objects.servers import s3proxy

MISSING = [program for program in ("java", "mvn") if shutil.which(program) is None]


@pytest.mark.skipif(bool(MISSING) and "CI" not in os.environ, reason=f"needs {', '.join(MISSING)}")
def test_what_s3proxy_serves_is_read_as_from_a_folder(tmp_path: Path) -> None:
    """Three commands over each layout, with a damaged record."""
    programs = Path.home() / ".cache" / "walproof-object-servers"
    programs.mkdir(parents=True, exist_ok=True)
    with s3proxy(programs, tmp_path / "objects") as served:
        assert compare(served, 18, tmp_path, (("pgBackRest", "lz4"), ("folder", ""))) == (6, 0)
