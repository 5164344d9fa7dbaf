"""Installs the wheel in new Debians that have Python and no compiler, and uses it there.

    make wheel try-wheel
    python3 bench/ship/try_wheel.py --suite bookworm --suite sid
    python3 bench/ship/try_wheel.py --bases /var/tmp/debians      # which has bookworm and trixie

For each suite debootstrap makes a Debian with python3-venv in a temporary folder. The packages that walproof
needs are downloaded by this machine's pip as requirements/run.txt names them; there, pip installs from those
files, without a network, and an ordinary user runs walproof: help, completion, WAL of a segment, a comparison
on the embedded PostgreSQL, and power cuts, which need the library that is preloaded. Prints what each step
came to, and a table.

Needs root, debootstrap (of the package of that name) and about 2 GB for a moment. Mounts and processes are in
namespaces that end with their step, so that nothing of either is left, however this program ends.

Exit status: 0 everything worked, 1 something did not, 2 this machine cannot try it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden" / "wal" / "17"
COMPILERS = ("cc", "gcc", "clang", "cargo", "rustc", "zig")
NAMESPACES = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc")
INSIDE = """
set -eu
mount -t proc proc "$0/proc"
mount --rbind /sys "$0/sys"
mkdir -p "$0/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"
root=$0
user=$1
home=$2
shift 2
cd /
exec chroot --userspec="$user" "$root" env -i HOME="$home" LC_ALL=C.UTF-8 \\
  PATH=/opt/walproof/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c 'cd && exec "$@"' sh "$@"
"""
"""Run by sh within the namespaces: the folder of the Debian, the user, their home, the command."""


class Failed(Exception):
    """A step failed."""


@dataclass(frozen=True, slots=True)
class Debian:
    """A Debian in a folder."""

    suite: str
    folder: Path

    def run(self, *command: str, user: str = "dba", timeout_s: float = 900.0) -> str:
        """Run the command and return its stdout. Raises Failed when its exit status is not 0."""
        home = "/root" if user == "root" else f"/home/{user}"
        done = subprocess.run(
            [*NAMESPACES, "sh", "-c", INSIDE, str(self.folder), user, home, *command],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=timeout_s,
        )  # fmt: skip
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def json(self, *command: str) -> Any:
        """Run the command and return its JSON."""
        return json.loads(self.run(*command))


@contextmanager
def debian(suite: str, bases: Path | None) -> Iterator[Debian]:
    """Make or copy a new Debian, and remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f"walproof-{suite}-", dir="/var/tmp"))
    try:
        made = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "debootstrap", "--variant=minbase"]
        made += ["--include=python3-venv", suite, str(folder)]
        copied = ["cp", "-a", f"{bases}/{suite}/.", str(folder)]
        done = subprocess.run(copied if bases else made, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"no Debian {suite}: {done.stdout[-2000:]}{done.stderr}")
        folder.chmod(0o755)
        yield Debian(suite, folder)
    finally:
        shutil.rmtree(folder)


def download(debian: Debian) -> None:
    """Put the packages of the lock for that Debian's Python and C library into its folder /wheels."""
    asked = "import platform, sys; print(*sys.version_info[:2], platform.libc_ver()[1].split('.')[1])"
    major, minor, glibc = debian.run("python3", "-c", asked, user="root").split()
    platforms = [f"--platform=manylinux_2_{number}_x86_64" for number in range(5, int(glibc) + 1)]
    platforms += [
        f"--platform={name}_x86_64" for name in ("manylinux1", "manylinux2010", "manylinux2014", "linux")
    ]
    with tempfile.TemporaryDirectory() as place:
        tools = Path(place)
        subprocess.run([sys.executable, "-m", "venv", str(tools)], check=True)
        done = subprocess.run(
            [tools / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "download", "--quiet",
             "--only-binary=:all:", "--require-hashes", f"--python-version={major}.{minor}",
             "--implementation=cp", f"--abi=cp{major}{minor}", "--abi=abi3", "--abi=none", *platforms,
             "-r", str(ROOT / "requirements" / "run.txt"), "-d", str(debian.folder / "wheels")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise Failed(f"pip download: {done.stderr}")


def no_compiler(debian: Debian) -> str:
    """Say which Debian it is; check that nothing can be built in it."""
    found = debian.run(
        "sh", "-c", f"for name in {' '.join(COMPILERS)}; do command -v $name || true; done", user="root"
    )
    if found:
        raise Failed(f"there is a compiler: {found}")
    release = debian.run("sh", "-c", ". /etc/os-release; echo $PRETTY_NAME", user="root").strip()
    return f"{release}; none of {', '.join(COMPILERS)}"


def install(debian: Debian, wheel: Path) -> str:
    """Install the wheel and the packages of the lock from files into a venv; make an ordinary user."""
    (debian.folder / "wheels").mkdir()
    download(debian)
    shutil.copy(wheel, debian.folder / "wheels")
    debian.run("useradd", "--create-home", "dba", user="root")
    debian.run("python3", "-m", "venv", "/opt/walproof", user="root")
    debian.run(
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--find-links=/wheels",
        f"/wheels/{wheel.name}",
        user="root",
    )
    python, glibc = debian.run(
        "python", "-c", "import platform; print(platform.python_version(), platform.libc_ver()[1])"
    ).split()
    return f"Python {python}, glibc {glibc}"


def help_and_shell(debian: Debian, wheel: Path) -> str:
    """Check the version, the names of the commands, and the files for the shell and for man."""
    version = debian.run("walproof", "--version").strip()
    if version != f"walproof {wheel.name.split('-')[1]}":
        raise Failed(f"another version: {version}")
    if "power-cut" not in debian.run("walproof", "--help"):
        raise Failed("walproof --help does not name its commands")
    completed = debian.run(
        "env", "_WALPROOF_COMPLETE=complete_bash", "COMP_WORDS=walproof wal ver", "COMP_CWORD=2", "walproof"
    )
    if completed.split() != ["verify"]:
        raise Failed(f'"walproof wal ver" is completed to {completed!r}')
    for name in ("man/man1/walproof.1", "bash-completion/completions/walproof"):
        debian.run("test", "-s", f"/opt/walproof/share/{name}")
    return f"{version}; completion and man page are there"


def wal_stats(debian: Debian) -> str:
    """Check that recorded segments have as many records as pg_waldump counted (stats.txt)."""
    facts = dict(line.split(" ", 1) for line in (GOLDEN / "facts.txt").read_text().splitlines())
    folder = debian.folder / "home" / "dba" / "wal"
    folder.mkdir(mode=0o755)
    for packed in GOLDEN.glob("*.xz"):
        (folder / packed.stem).write_bytes(lzma.decompress(packed.read_bytes()))
    told = debian.json("walproof", "wal", "stats", "--json", "-s", facts["start"], "-e", facts["end"], "wal")
    records = told["totals"]["records"]
    total = re.search(r"^Total +(\d+) ", (GOLDEN / "stats.txt").read_text(), re.MULTILINE)
    if total is None or records != int(total[1]):
        raise Failed(f"{records} records; pg_waldump counted {total}")
    return f"{records:,} records, as many as pg_waldump counted"


def comparison(debian: Debian) -> str:
    """Check throughput and power cuts: nothing is lost with the defaults, something is without fsync."""
    told = debian.json(
        "walproof", "compare", "--set", "fsync=off", "--scale", "1", "--design", "fresh", "--rounds", "2",
        "--duration", "2s", "--power-cut", "4", "--pg", "embedded", "--json",
    )  # fmt: skip
    ratio = told["analysis"]["effects"][0]
    cuts = {verdict["variant"]: verdict for verdict in told["power_cuts"]}
    if ratio["n"] != 2 or told["analysis"]["failed"] or any(cut["images"] != 8 for cut in cuts.values()):
        raise Failed(f"trials are missing: {json.dumps(told['trials'])[:2000]}")
    if cuts["default"]["survives"] != "yes" or cuts["fsync=off"]["survives"] == "yes":
        raise Failed(f"power cuts: {json.dumps(told['power_cuts'])}")
    clean = " and ".join(f"{cuts[name]['counts']['clean']} of 8 clean with {name}" for name in cuts)
    return f"2 rounds on PostgreSQL {ratio['install']}; power cuts: {clean}"


def nothing_left(debian: Debian) -> str:
    """Check that no temporary file is left. (Processes and shared memory end with their step.)"""
    left = debian.run("ls", "-A", "/tmp", "/var/tmp")
    if left.split() != ["/tmp:", "/var/tmp:"]:
        raise Failed(f"left behind: {left}")
    return "/tmp and /var/tmp are empty"


def steps(wheel: Path) -> list[tuple[str, Callable[[Debian], str]]]:
    """The steps, in this order."""
    return [
        ("no compiler", no_compiler),
        ("pip install", lambda debian: install(debian, wheel)),
        ("help, completion, man page", lambda debian: help_and_shell(debian, wheel)),
        ("wal stats", wal_stats),
        ("compare, power cuts", comparison),
        ("nothing left", nothing_left),
    ]


def attempt(suite: str, bases: Path | None, wheel: Path) -> list[tuple[str, str]]:
    """Try every step in a new Debian until one fails; return rows for the table."""
    rows: list[tuple[str, str]] = []
    _say(f"{suite}: a new Debian")
    with debian(suite, bases) as made:
        for name, step in steps(wheel):
            started = time.monotonic()
            try:
                found = step(made)
            except (Failed, subprocess.TimeoutExpired, KeyError, ValueError) as error:
                _say(f"{suite}: {name}: FAILED: {error}")
                return [*rows, (name, "FAILED")]
            rows.append((name, found))
            _say(f"{suite}: {name}: {found} ({time.monotonic() - started:.0f} s)")
    return rows


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _cannot() -> str:
    """Why this machine cannot try a wheel; empty where it can."""
    if os.geteuid() != 0:
        return "namespaces and debootstrap need root"
    missing = [name for name in ("debootstrap", "unshare") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    """Try the wheel in each suite; a table on stdout."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--wheel", type=Path, help="default: the one in dist/")
    parser.add_argument("--suite", action="append", help="of Debian; default: bookworm and trixie")
    parser.add_argument("--bases", type=Path, help="folder of folders that debootstrap made, by suite")
    asked = parser.parse_args()
    wheels = [asked.wheel] if asked.wheel else sorted((ROOT / "dist").glob("walproof-*.whl"))
    if len(wheels) != 1 or not wheels[0].is_file():
        _say("expected one wheel in dist/ (make wheel), or --wheel")
        return 2
    if cannot := _cannot():
        _say(cannot)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    suites = asked.suite or ["bookworm", "trixie"]
    failed = False
    megabytes, today = wheels[0].stat().st_size / 1e6, time.strftime("%Y-%m-%d", time.gmtime())
    print(f"{wheels[0].name}, {megabytes:.2f} MB, {today}\n")
    for suite in suites:
        try:
            rows = attempt(suite, asked.bases, wheels[0])
        except Failed as error:
            _say(str(error))
            rows = [("a new Debian", "FAILED")]
        failed = failed or rows[-1][1] == "FAILED"
        print(
            f"| {suite} | |\n|---|---|",
            *(f"| {name} | {found} |" for name, found in rows),
            "",
            sep="\n",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
