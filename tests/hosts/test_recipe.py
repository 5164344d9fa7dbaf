"""The recipe for a cluster in docs/many-machines.md."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

RECIPE = Path(__file__).parents[2] / "docs" / "many-machines.md"


def test_the_token_of_the_head_is_for_its_user_alone(tmp_path: Path) -> None:
    """Ray makes it with the shell's umask."""
    made = re.search(r"^head\$ +(.*get-auth-token --generate\)?)", RECIPE.read_text(), re.MULTILINE)
    assert made is not None
    ray = tmp_path / "ray"
    ray.write_text(f"#!/bin/sh\necho secret > {tmp_path}/auth_token\n")
    ray.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["sh", "-c", f"umask 022; {made[1]}"], check=True, env={"PATH": path})
    assert (tmp_path / "auth_token").stat().st_mode & 0o777 == 0o600
