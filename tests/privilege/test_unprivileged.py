"""Without root: the helper's tests pass, and what cannot be had says so, by name and with the reason.

As root these tests start Python as the servers' user; as anybody else, as themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tests.needs import lacking
from tests.privilege.helper.auditctl import StandIn
from walproof.postgres.reach import reachable
from walproof.privilege.user import running_as, server_user

ROOT = Path(__file__).parent.parent.parent
PACKAGES = Path(typer.__file__).parent.parent
PYTHON = "a Python of the servers' user"


def _python() -> str:
    """This Python, or the system's of the same version, where it can be run."""
    user = server_user()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    programs = (Path(sys.executable), Path(f"/usr/bin/python{version}"))
    found = next((it for it in programs if it.exists() and reachable(it.resolve(), user)), None)
    if found is None:
        lacking(PYTHON, f"{sys.executable} cannot be run, nor is there another {version}")
    return str(found)


def _run(*words: str, home: Path, path: str = "/usr/bin:/bin:/usr/sbin") -> subprocess.CompletedProcess[str]:
    program = _python()
    user = server_user()
    if not all(reachable(folder, user) for folder in (ROOT / "src", ROOT / "tests", PACKAGES)):
        lacking(PYTHON, f'"{ROOT}" or "{PACKAGES}" cannot be read')
    environment = {
        "PATH": path, "HOME": str(home), "TMPDIR": str(home), "WALPROOF_CACHE": str(home / "cache"),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", PACKAGES))), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    return subprocess.run(
        [program, "-P", "-m", *words],
        capture_output=True, text=True, check=False, cwd=home, env=environment, timeout=300,
        **running_as(user),
    )  # fmt: skip


@pytest.fixture
def home(open_place: Path) -> Path:
    """A folder of that user."""
    user = server_user()
    folder = open_place / "home"
    folder.mkdir(mode=0o700)
    if user is not None:
        os.chown(folder, user.uid, user.gid)
    return folder


def test_the_helper_without_root(home: Path) -> None:
    done = _run(
        "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT),
        "--basetemp", str(home / "tests"), str(ROOT / "tests" / "privilege" / "helper" / "test_process.py"),
        "-k", "hostile or others or undoes", home=home,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    # Each of them, and none left out: a dot a test.
    assert done.stdout.splitlines()[0].startswith("." * 7 + " "), done.stdout


def test_a_study_names_what_needs_root(home: Path, open_place: Path) -> None:
    """The rest of it would be measured."""
    programs = open_place / "programs"
    programs.mkdir()
    StandIn(programs, _python()).begin(refuses=True)
    for path in (programs, *programs.iterdir()):
        path.chmod(0o755)
    words = ("walproof", "run", "replay-audit", "--dry-run", "--json", "--pg", "embedded")
    done = _run(*words, home=home, path=f"{programs}:/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert "no audit" in {variant["name"] for variant in plan["variants"]}
    reason = "auditctl says: You must be root to run this program. (walproof was not started as root)"
    left_out = {left["variant"]: left["reason"] for left in plan["left_out"]}
    for name in ("kernel audit, no match", "kernel audit, recording"):
        assert left_out[name] == f"kernel audit: {reason}"
    assert (
        "servers run as: the user who started walproof"
        in _run(*(word for word in words if word != "--json"), home=home).stdout
    )
