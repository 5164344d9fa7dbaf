"""Whether tests notice a disk simulator with a piece missing: each hook of the preload library and each rule
of the disk model is switched off, one at a time.

    PYTHONPATH=. python bench/mutants/mutants.py                    # all of them
    PYTHONPATH=. python bench/mutants/mutants.py --only hooks
    PYTHONPATH=. python bench/mutants/mutants.py --only rules --match truncation
    PYTHONPATH=. python bench/mutants/mutants.py --offline          # without tests that start servers
    PYTHONPATH=. python bench/mutants/mutants.py --crate            # rules, by the tests of the crate alone

A hook is taken out of a copy of the built library: the dynamic linker does not find it there, and the program
calls the C library's. A rule is changed in a copy of the sources (bench/mutants/rules.py), which is built in
target/mutants. Nothing in the product can be switched. Then, until one fails: the tests of the crate (rules
only), tests/disk without servers, the self-test of power cuts, tests/disk on servers. Prints a row for each;
exits with 1 when one was not noticed, or when something fails without any mutant.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.mutants.rules import RULES, Rule
from tests.disk.exports import exported_functions, without_function
from walproof.disk.preload import library

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "target/mutants"
OFFLINE = [
    "tests/disk/test_every_call.py", "tests/disk/test_against_plain_disk.py",
    "tests/disk/test_device.py", "tests/disk/test_events.py",
]  # fmt: skip
ON_SERVERS = ["tests/disk/test_power_cut.py", "tests/disk/test_refusals.py"]
SELF_TEST = ["tests/lab/test_power_cut.py", "-k", "self_test"]
PATIENCE_S = 900


@dataclass(frozen=True)
class Place:
    """A copy of the package, and of the crates beside it."""

    folder: Path
    is_offline: bool
    """Whether servers are left out."""
    is_crate_alone: bool
    """Whether no library is built: the tests of the crate alone."""

    @property
    def package(self) -> Path:
        """Path of the copy's package."""
        return self.folder / "src/walproof"

    def source(self, rule: Rule) -> Path:
        """Path of the copy of the rule's file."""
        return self.folder / "crates/walproof-disk/src" / rule.file

    def cargo(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run cargo on the copy."""
        environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
        given = ["cargo", *command, "--locked"]
        return subprocess.run(given, cwd=self.folder, env=environment, capture_output=True, text=True)

    def pytest(self, *what: str) -> str | None:
        """The first test that fails with the copy's libraries; None when all pass."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src")}
        command = [sys.executable, "-m", "pytest", "-x", "-rfE", "-p", "no:cacheprovider", *what]
        # A missing name proves nothing: a test has to miss what the call does.
        command += ["--deselect", "tests/disk/test_every_call.py::test_there_is_a_call_for_each_function"]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE_S
            )
        except subprocess.TimeoutExpired:
            return "no end"
        if done.returncode == 0:
            return None
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
        return f"`{failed[1]}`" if failed else f"pytest's exit status {done.returncode}"


def copy_sources(folder: Path, is_offline: bool, is_crate_alone: bool) -> Place:
    """Copy everything that is built and run."""
    for name in ("crates", "src"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("target", "__pycache__", "corpus")
        )
    for name in ("Cargo.toml", "Cargo.lock"):
        shutil.copy(ROOT / name, folder)
    # Golden files that tests of crates read by their own place.
    (folder / "tests").symlink_to(ROOT / "tests")
    return Place(folder, is_offline, is_crate_alone)


def noticed(place: Place) -> str | None:
    """The first failure with the libraries in place; None when nothing fails."""
    stages = (OFFLINE,) if place.is_offline else (OFFLINE, SELF_TEST, ON_SERVERS)
    return next((failed for stage in stages if (failed := place.pytest(*stage))), None)


def install(place: Place) -> str | None:
    """Build the copy's libraries into its package; return the compiler's words if it failed."""
    built = place.cargo("build", "-p", "walproof-preload", "-p", "walproof-python")
    if built.returncode:
        return built.stderr
    for pattern, crate in (
        ("_native*.so", "lib_native.so"),
        ("_preload*.so", "lib_preload.so"),
    ):
        for library_file in place.package.glob(pattern):
            shutil.copy(TARGET / "debug" / crate, library_file)
    return None


def without_hooks(place: Place, match: str) -> Iterator[tuple[str, str | None]]:
    """Yield each hook with the test that notices its absence."""
    given = library()
    mutated = place.package / given.name
    for name in exported_functions(given):
        if match in name:
            without_function(given, name, mutated)
            yield f"hook `{name}`", noticed(place)
    shutil.copy(given, mutated)


def without_rules(place: Place, match: str) -> Iterator[tuple[str, str | None]]:
    """Yield each rule with the test that notices its absence."""
    for rule in RULES:
        if match not in rule.name:
            continue
        path = place.source(rule)
        before = path.read_text()
        if before.count(rule.old) != 1:
            sys.exit(f'{rule.file} has {before.count(rule.old)} times what "{rule.name}" replaces')
        path.write_text(before.replace(rule.old, rule.new))
        yield rule.name, notice_rule(place)
        path.write_text(before)


def notice_rule(place: Place) -> str | None:
    """The first failure, in the crate's tests or with libraries built from the copy."""
    tested = place.cargo("test", "-p", "walproof-disk")
    failed = re.search(r"^test (\S+) .*FAILED$", tested.stdout, re.MULTILINE)
    if failed:
        return f"`walproof-disk: {failed[1]}`"
    if tested.returncode:
        sys.exit(f"a mutant does not build:\n{tested.stderr}")
    if place.is_crate_alone:
        return None
    said = install(place)
    if said is not None:
        sys.exit(f"a mutant does not build:\n{said}")
    return noticed(place)


def main() -> None:
    """Try every mutant that was asked for."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["hooks", "rules"])
    parser.add_argument("--match", default="", help="only those whose name has this in it")
    parser.add_argument("--offline", action="store_true", help="without tests that start servers")
    parser.add_argument("--crate", action="store_true", help="rules, by the tests of the crate alone")
    given = parser.parse_args()
    survived, count = [], 0
    with tempfile.TemporaryDirectory(prefix="walproof-mutants-") as folder:
        place = copy_sources(Path(folder), given.offline, given.crate)
        wrong = None if given.crate else noticed(place)
        if wrong:
            sys.exit(f"without any mutant, {wrong} fails")
        print("| without | caught by | s |\n|---|---|---|", flush=True)
        for kind, mutants in (("hooks", without_hooks), ("rules", without_rules)):
            if (given.crate and kind == "hooks") or given.only not in (None, kind):
                continue
            begun = time.monotonic()
            for name, caught in mutants(place, given.match):
                count += 1
                print(f"| {name} | {caught or '**nothing**'} | {time.monotonic() - begun:.0f} |", flush=True)
                begun = time.monotonic()
                if caught is None:
                    survived.append(name)
    print(f"\n{count} mutants, {len(survived)} not caught")
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
