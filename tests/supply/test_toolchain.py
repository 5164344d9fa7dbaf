"""The Rust toolchain is one version, and it is in use."""

from __future__ import annotations

import re
import subprocess
import tomllib

from tests.supply import locks


def test_the_pinned_toolchain_is_the_one_in_use() -> None:
    toolchain = tomllib.loads((locks.ROOT / "rust-toolchain.toml").read_text())["toolchain"]
    # A component or target that a machine lacks would be fetched.
    assert set(toolchain) == {"channel"}
    assert re.fullmatch(r"1\.\d+\.\d+", toolchain["channel"])
    told = subprocess.run(["rustc", "--version"], cwd=locks.ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.split()[1] == toolchain["channel"]
    oldest = tomllib.loads((locks.ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    assert tuple(map(int, oldest.split("."))) <= tuple(map(int, toolchain["channel"].split(".")))
