"""A run of pytest in a run, with the hooks of tests/conftest.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent


def inner_run(folder: Path, text: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A whole run, in ``folder``, of the tests in ``text``. No version is looked for or fetched."""
    (folder / "inside").mkdir()
    (folder / "inside/test_inside.py").write_text(text)
    (folder / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\ntestpaths = ["inside"]\naddopts = "--import-mode=importlib"\n'
    )
    (folder / "conftest.py").write_text(
        "from tests import versions\n"
        "versions.fetch_missing = lambda: None\nversions.has_19 = lambda: False\n"
        "from tests.conftest import pytest_runtest_makereport, pytest_sessionfinish\n"
        "from tests.conftest import pytest_terminal_summary\n"
    )
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "src")])
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=folder, capture_output=True, text=True, check=False,
        env={**kept, "PYTHONPATH": path, **environment},
    )  # fmt: skip
