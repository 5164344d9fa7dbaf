"""Asks what is known against the software that walproof is made of: vulnerabilities, licences, sources.

    make audit

cargo-deny looks at the crates (deny.toml), pip-audit at the locks of Python's packages. What a machine cannot
check is named: databases of vulnerabilities are fetched, and cargo-deny is installed by who wants it
(``cargo install --locked cargo-deny``). A service that knows none of our packages has not checked them.

Exit status: 0 everything was checked and nothing was found, 1 something was found, 2 something could not be
checked, and nothing was found in the rest.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCKS = ("run", "dev", "build", "audit", "wheel", "docs")


class Verdict(Enum):
    """The outcome of a check."""

    CLEAN = "clean"
    FOUND = "FOUND"
    NOT_CHECKED = "NOT CHECKED"


@dataclass(frozen=True, slots=True)
class Check:
    """A subject, the outcome of its check, and the words for it."""

    subject: str
    verdict: Verdict
    words: str = ""


def crates(cargo_deny: str) -> Iterator[Check]:
    """Licences, sources and duplicates need no network; advisories a copy of RustSec's database."""
    subjects = {"licences, sources and bans of crates": ("licenses", "sources", "bans")}
    advisories = "advisories about crates"
    if _said((cargo_deny, "--version")) is None:
        for subject in (*subjects, advisories):
            yield Check(subject, Verdict.NOT_CHECKED, "no cargo-deny: cargo install --locked cargo-deny")
        return
    for subject, what in subjects.items():
        yield _deny(cargo_deny, subject, what)
    fetched = _said((cargo_deny, "fetch", "db"))
    if fetched is None or fetched.returncode != 0 or "[ERROR]" in fetched.stderr:
        why = "RustSec's database could not be fetched" if fetched is None else _last_line(fetched.stderr)
        yield Check(advisories, Verdict.NOT_CHECKED, why)
    else:
        yield _deny(cargo_deny, advisories, ("advisories",))


def _deny(cargo_deny: str, subject: str, what: Sequence[str]) -> Check:
    done = _said((cargo_deny, "--offline", "check", "--hide-inclusion-graph", *what))
    if done is None:
        return Check(subject, Verdict.NOT_CHECKED, "cargo-deny did not end")
    if done.returncode == 0:
        return Check(subject, Verdict.CLEAN)
    # A finding has a header of its own; an error of cargo-deny has not.
    is_finding = "error[" in done.stderr + done.stdout
    words = (done.stderr + done.stdout).strip()
    return Check(subject, Verdict.FOUND if is_finding else Verdict.NOT_CHECKED, words)


def packages(pip_audit: str, lock: Path) -> Check:
    """Vulnerabilities of the packages of a lock."""
    subject = f"vulnerabilities of {lock.name}"
    done = _said(
        (
            pip_audit,
            "--disable-pip",
            "--require-hashes",
            "--format=json",
            "--progress-spinner=off",
            f"-r{lock}",
        )
    )
    if done is None:
        return Check(subject, Verdict.NOT_CHECKED, "pip-audit could not be run, or did not end")
    try:
        told = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return Check(subject, Verdict.NOT_CHECKED, _last_line(done.stderr))
    found = [
        f"{package['name']} {package['version']}: {', '.join(vuln['id'] for vuln in package['vulns'])}"
        for package in told
        if package.get("vulns")
    ]
    if found:
        return Check(subject, Verdict.FOUND, "\n".join(found))
    # pip-audit ends with 0 where the service has not heard of a package.
    unknown = [package["name"] for package in told if "skip_reason" in package]
    if unknown or not told:
        words = f"{len(unknown)} of {len(told)} packages are unknown to the service that was asked"
        return Check(subject, Verdict.NOT_CHECKED, words)
    return Check(subject, Verdict.CLEAN, f"{len(told)} packages")


def status(checks: Sequence[Check]) -> int:
    """The exit status: a finding counts for more than what could not be checked."""
    verdicts = {check.verdict for check in checks}
    if Verdict.FOUND in verdicts:
        return 1
    return 2 if Verdict.NOT_CHECKED in verdicts else 0


def _said(command: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """None where there is no such program, or it did not end in 5 minutes."""
    try:
        return subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no output"


def main() -> int:
    """Print a line for each check, and what it found."""
    parser = argparse.ArgumentParser(description="Known vulnerabilities, licences and sources.")
    parser.add_argument("--pip-audit", default="pip-audit", help="the program; by default of PATH")
    parser.add_argument("--cargo-deny", default="cargo-deny", help="the program; by default of PATH")
    given = parser.parse_args()
    checks = list(crates(given.cargo_deny))
    checks += [packages(given.pip_audit, ROOT / f"requirements/{lock}.txt") for lock in LOCKS]
    for check in checks:
        head, *rest = check.words.splitlines() or [""]
        print(f"{check.verdict.value:<12} {check.subject}" + (f": {head}" if head else ""))
        print("".join(f"             {line}\n" for line in rest), end="")
    return status(checks)


if __name__ == "__main__":
    sys.exit(main())
