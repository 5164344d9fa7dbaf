"""Fuzz every target until it found no new edge for 30 CPU minutes; resumable.

    python bench/fuzz.py                      # all targets, in turns of two CPU minutes
    python bench/fuzz.py strip whatif         # these
    python bench/fuzz.py --quiet-min 5        # shorter
    python bench/fuzz.py --until 21:35        # no new turn after that time of day
    python bench/fuzz.py --build              # no more than build
    python bench/fuzz.py --exchange           # before, try what other targets found
    python bench/fuzz.py --keep               # at the end, keep progress and inputs in bench/fuzzed

Builds crates/walproof-fuzz/fuzz with the stable compiler, edge counters in our own Rust and its Rust
dependencies (C libraries of compression have none), debug assertions and overflow checks. One process at a
time, at nice 19; several calls at once may take different targets. What it did is in
target/fuzz/progress/TARGET.json, what it found in target/fuzz/corpus/TARGET; a later call goes on there, and
counts anew where its sources have changed, for edges are others then. On another machine a call goes on from
bench/fuzzed: the progress, and as few inputs as reach all that was reached. An input that breaks something is
left in target/fuzz/broken/TARGET, and the exit status is 1.

Edges are those that the corpus reaches, as libFuzzer counts them ("cov"). A turn that finds one sets the CPU
time without a new edge back to zero.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import io
import json
import os
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CRATE = ROOT / "crates/walproof-fuzz/fuzz"
WORK = ROOT / "target/fuzz"
KEPT = ROOT / "bench/fuzzed"
SOURCE = "crates/walproof-fuzz/src"
TRIPLE = "x86_64-unknown-linux-gnu"
COVERAGE = [
    "--cfg", "fuzzing", "-Ccodegen-units=1", "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4", "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table", "-Cllvm-args=-sanitizer-coverage-trace-compares",
]  # fmt: skip
LIMITS = ["-max_len=4096", "-timeout=60", "-rss_limit_mb=2048", "-malloc_limit_mb=320"]
"""320 MB: what a decoder may ask for (256), and a little."""
HEADS = {
    "parallel": b"\x00", "recovery": b"\x01\x00\x00", "stream": b"\x10\x00\x00", "strip": b"\xff",
    "verify": b"\x00", "whatif": b"\x01\x00\x00\x00",
}  # fmt: skip
"""The bytes before the instructions that make WAL, for the targets whose input is instructions."""


@dataclass
class Progress:
    """The progress of a target so far."""

    sources: str = ""
    """SHA-1 of what the program is built from; edges of other sources are not comparable."""
    edges: int = 0
    executions: int = 0
    cpu_s: float = 0.0
    quiet_cpu_s: float = 0.0
    """CPU time since the last new edge."""


def build() -> None:
    """Build all programs."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(WORK), "RUSTFLAGS": " ".join(COVERAGE)}
    command = ["cargo", "build", "--release", "--locked", "--target", TRIPLE]
    subprocess.run(command, cwd=CRATE, env=environment, check=True)


def program(target: str) -> Path:
    """The program of a target."""
    return WORK / TRIPLE / "release" / target


def sources(target: str) -> str:
    """SHA-1 of the files that a target's program is made of, and calls."""
    paths = {ROOT / "rust-toolchain.toml", CRATE / "Cargo.lock", CRATE / "Cargo.toml"}
    crates, modules = {"walproof-wal"}, [target]
    for module in modules:
        # The module that makes WAL is one of the tests of walproof-wal.
        path = ROOT / (
            "crates/walproof-wal/tests/support/forge.rs" if module == "forge" else f"{SOURCE}/{module}.rs"
        )
        paths.add(path)
        text = path.read_text()
        modules += sorted(set(re.findall(r"\bcrate::(\w+)", text)) - set(modules))
        crates |= {f"walproof-{name}" for name in re.findall(r"\bwalproof_(\w+)", text)}
    for crate in crates:
        folder = ROOT / "crates" / crate
        paths |= {folder / "Cargo.toml", *folder.glob("src/**/*.rs")}
    digest = hashlib.sha1()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def progress_of(target: str, digest: str) -> Progress:
    """The progress of a target with the present sources, here or as it was kept; kept inputs are unpacked."""
    found = WORK / "corpus" / target
    packed = KEPT / f"{target}.tar.xz"
    if not found.exists():
        found.mkdir(parents=True)
        if packed.exists():
            with tarfile.open(packed) as archive:
                archive.extractall(found, filter="data")
    for path in (progress_file(target), KEPT / f"{target}.json"):
        if path.exists():
            stored = Progress(**json.loads(path.read_text()))
            if stored.sources == digest:
                return stored
    return Progress(sources=digest)


def progress_file(target: str) -> Path:
    """The file with a target's progress: each has its own, so that two calls do not undo each other's."""
    return WORK / "progress" / f"{target}.json"


def exchange(target: str) -> None:
    """Keep, of the instructions that other targets found, those that reach something new in this target."""
    found = WORK / "corpus" / target
    with tempfile.TemporaryDirectory() as others:
        for other in sorted(set(HEADS) - {target}):
            for path in (WORK / "corpus" / other).glob("*"):
                instructions = path.read_bytes()[len(HEADS[other]) :]
                Path(others, f"{other}-{path.name}").write_bytes(HEADS[target] + instructions)
        command = [str(program(target)), "-merge=1", str(found), others, *LIMITS]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=True)


def take_turn(target: str, progress: Progress, seconds: int) -> bool:
    """Fuzz for some time; return whether nothing broke."""
    found, broken = WORK / "corpus" / target, WORK / "broken" / target
    for folder in (found, broken):
        folder.mkdir(parents=True, exist_ok=True)
    command = [
        "nice", "-n", "19", str(program(target)), str(found), str(CRATE / "corpus" / target),
        f"-max_total_time={seconds}", f"-artifact_prefix={broken}/", "-print_final_stats=1", *LIMITS,
    ]  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    edges = max(map(int, re.findall(r" cov: (\d+) ", done.stderr)), default=0)
    executions = sum(map(int, re.findall(r"number_of_executed_units: (\d+)", done.stderr)))
    is_new = edges > progress.edges
    progress.edges = max(edges, progress.edges)
    progress.executions += executions
    progress.cpu_s += cpu_s
    progress.quiet_cpu_s = 0.0 if is_new else progress.quiet_cpu_s + cpu_s
    print(
        f"{target}: {progress.edges} edges, {progress.executions:,} executions, "
        f"{progress.cpu_s / 60:.1f} CPU minutes, {progress.quiet_cpu_s / 60:.1f} without a new edge",
        flush=True,
    )
    if done.returncode:
        print("\n".join(done.stderr.splitlines()[-40:]), file=sys.stderr)
    return done.returncode == 0


def keep(target: str, progress: Progress) -> None:
    """Put the progress, and as few inputs as reach all that was reached, into the repository."""
    found, corpus = WORK / "corpus" / target, CRATE / "corpus" / target
    KEPT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as few:
        command = [str(program(target)), "-set_cover_merge=1", few, str(found), str(corpus), *LIMITS]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=True)
        with tarfile.open(KEPT / f"{target}.tar.xz", "w:xz") as archive:
            # The same inputs give the same bytes: no times, no owners.
            for path in sorted(Path(few).iterdir()):
                content = path.read_bytes()
                member = tarfile.TarInfo(path.name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    (KEPT / f"{target}.json").write_text(json.dumps(asdict(progress), indent=1) + "\n")


def next_time(time: datetime.time) -> datetime.datetime:
    """When it is that time of day: tomorrow where it was already."""
    now = datetime.datetime.now()
    today = datetime.datetime.combine(now, time)
    return today if today > now else today + datetime.timedelta(days=1)


def main() -> None:
    """Fuzz."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", help="all of them by default")
    parser.add_argument("--quiet-min", type=float, default=30, help="CPU minutes without a new edge")
    parser.add_argument("--turn-s", type=int, default=120, help="seconds of a turn")
    parser.add_argument("--until", type=datetime.time.fromisoformat, help="no new turn after that time")
    parser.add_argument("--build", action="store_true", help="build the programs, and do no more")
    parser.add_argument("--exchange", action="store_true", help="before, try what other targets found")
    parser.add_argument("--keep", action="store_true", help="keep progress and inputs in bench/fuzzed")
    given = parser.parse_args()
    build()
    if given.build:
        return
    targets = given.targets or sorted(path.stem for path in (CRATE / "fuzz_targets").glob("*.rs"))
    all_progress = {name: progress_of(name, sources(name)) for name in targets}
    (WORK / "progress").mkdir(parents=True, exist_ok=True)
    if given.exchange:
        for name in HEADS:
            progress_of(name, sources(name))
        for name in sorted(set(targets) & set(HEADS)):
            exchange(name)
    end = None if given.until is None else next_time(given.until)
    is_sound = True
    turns = list(targets)
    while turns:
        target = turns.pop(0)
        progress = all_progress[target]
        if progress.quiet_cpu_s >= given.quiet_min * 60:
            continue
        if end is not None and datetime.datetime.now() > end:
            continue
        if take_turn(target, progress, given.turn_s):
            turns.append(target)
        else:
            is_sound = False
        progress_file(target).write_text(json.dumps(asdict(progress), indent=1))
    print(
        "\n| target | edges | executions | CPU minutes | of these without a new edge |\n|---|---|---|---|---|"
    )
    for name in targets:
        last = all_progress[name]
        cells = f"{last.edges:,} | {last.executions:,} | {last.cpu_s / 60:.1f} | {last.quiet_cpu_s / 60:.1f}"
        print(f"| {name} | {cells} |")
    if given.keep:
        for name in targets:
            keep(name, all_progress[name])
    sys.exit(0 if is_sound else 1)


if __name__ == "__main__":
    main()
