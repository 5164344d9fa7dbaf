"""What `make audit` says when a check finds something, finds nothing, or could not be made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import audit
from tests.supply import locks

UNREACHABLE = 'echo "2026-11-23 [ERROR] failed to fetch advisory database" >&2'
DENY = """#!/bin/sh
case "$*" in
  --version) echo cargo-deny 0.20.2 ;;
  "fetch db") {fetch} ;;
  *advisories*) {advisories} ;;
  *licenses*) {licenses} ;;
esac
"""


def _program(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def _deny(folder: Path, *, fetch: str = "true", advisories: str = "true", licenses: str = "true") -> str:
    return _program(folder, "deny", DENY.format(fetch=fetch, advisories=advisories, licenses=licenses))


def _pip_audit(folder: Path, *dependencies: dict[str, object], ends: int = 0) -> str:
    told = json.dumps({"dependencies": dependencies, "fixes": []})
    return _program(folder, "audit", f"#!/bin/sh\ncat <<'END'\n{told}\nEND\nexit {ends}\n")


CLEAN: dict[str, object] = {"name": "numpy", "version": "2.4.6", "vulns": []}
VULNERABLE: dict[str, object] = {
    "name": "jinja2",
    "version": "3.1.2",
    "vulns": [{"id": "PYSEC-1"}, {"id": "CVE-2"}],
}
UNKNOWN: dict[str, object] = {
    "name": "rich",
    "skip_reason": "Dependency not found on PyPI and could not be audited",
}


def _audit(cargo_deny: str, pip_audit: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "bench/audit.py", "--cargo-deny", cargo_deny, "--pip-audit", pip_audit],
        cwd=locks.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_all_is_checked_and_nothing_found(tmp_path: Path) -> None:
    status, said = _audit(_deny(tmp_path), _pip_audit(tmp_path, CLEAN))
    assert status == 0
    assert [line.split()[0] for line in said.splitlines()] == ["clean"] * (2 + len(audit.LOCKS))


@pytest.mark.parametrize(
    ("deny", "dependencies", "words"),
    [
        ({"licenses": "echo 'error[rejected]: GPL' >&2; exit 4"}, [CLEAN], "error[rejected]: GPL"),
        (
            {"advisories": "echo 'error[vulnerability]: hole' >&2; exit 1"},
            [CLEAN],
            "error[vulnerability]: hole",
        ),
        ({}, [CLEAN, VULNERABLE], "jinja2 3.1.2: PYSEC-1, CVE-2"),
        # What was found counts for more than what was not checked.
        ({"fetch": UNREACHABLE}, [VULNERABLE, UNKNOWN], "jinja2 3.1.2: PYSEC-1, CVE-2"),
    ],
)
def test_findings(
    tmp_path: Path, deny: dict[str, str], dependencies: list[dict[str, object]], words: str
) -> None:
    status, said = _audit(_deny(tmp_path, **deny), _pip_audit(tmp_path, *dependencies, ends=1))
    assert status == 1
    assert any(line.startswith("FOUND ") and line.endswith(words) for line in said.splitlines()), said


@pytest.mark.parametrize(
    ("deny", "dependencies", "words"),
    [
        ({"fetch": UNREACHABLE}, [CLEAN], "failed to fetch advisory database"),
        ({"fetch": f"{UNREACHABLE}; exit 1"}, [CLEAN], "failed to fetch advisory database"),
        ({"licenses": "echo 'no such option' >&2; exit 2"}, [CLEAN], "no such option"),
        # pip-audit ends with 0 here, and says that no vulnerability is known.
        ({}, [CLEAN, UNKNOWN], "1 of 2 packages are unknown"),
        ({}, [], "0 of 0 packages"),
    ],
)
def test_what_could_not_be_checked_is_no_success(
    tmp_path: Path, deny: dict[str, str], dependencies: list[dict[str, object]], words: str
) -> None:
    status, said = _audit(_deny(tmp_path, **deny), _pip_audit(tmp_path, *dependencies))
    assert status == 2
    assert any(line.startswith("NOT CHECKED") and words in line for line in said.splitlines()), said


def test_programs_that_are_not_there_are_named(tmp_path: Path) -> None:
    status, said = _audit(str(tmp_path / "deny"), str(tmp_path / "audit"))
    assert status == 2
    assert said.count("NOT CHECKED") == 2 + len(audit.LOCKS)
    assert "cargo install --locked cargo-deny" in said


def test_a_service_that_does_not_answer_is_told_in_its_words(tmp_path: Path) -> None:
    broken = _program(tmp_path, "audit", "#!/bin/sh\necho trace >&2\necho 'no route to host' >&2\nexit 1\n")
    status, said = _audit(_deny(tmp_path), broken)
    assert status == 2
    assert said.count("no route to host") == len(audit.LOCKS)
