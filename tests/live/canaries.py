"""Values that must not leave the place where they were put, and a command that is watched while it runs."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.wal.canary import contents

_LOOK_S = 0.02
_HOOK = """
import json, os, sys

def _note(event, arguments):
    if event == "subprocess.Popen":
        _, words, _, given = arguments
        given = os.environ if given is None else given
        given = {os.fsdecode(name): os.fsdecode(value) for name, value in given.items()}
        line = json.dumps([[os.fsdecode(word) for word in words], given]) + "\\n"
        log = os.open(LOG, os.O_WRONLY | os.O_APPEND)
        os.write(log, line.encode())
        os.close(log)

sys.addaudithook(_note)
"""
"""In every Python that walproof is: what it starts, with which words and which environment. Nothing is too
short-lived to be seen."""
_MEANT_FOR_IT = {"pg_dump": {"PGPASSWORD", "PGOPTIONS"}}
"""A client gets the password by libpq's own variable: nobody but its user and root reads that."""


class Canaries(dict[str, str]):
    """Place -> the value that is there."""

    def at(self, place: str) -> str:
        """A value for that place, the same each time."""
        return self.setdefault(place, f"canary-{place}-{secrets.token_hex(6)}")

    def found_in(self, text: str | bytes) -> list[str]:
        """Places whose values, or large parts of them, are in the text."""
        data = text.encode(errors="replace") if isinstance(text, str) else text
        return [place for place, value in self.items() if value.encode() in data]


@dataclass(slots=True)
class Watched:
    """A command that has ended, and where canaries were seen."""

    status: int
    stdout: str
    stderr: str
    programs: set[str] = field(default_factory=set)
    leaks: set[str] = field(default_factory=set)


def watch(arguments: Iterable[str], canaries: Canaries, cwd: Path, place: Path, **changes: str) -> Watched:
    """Run walproof with canaries in its environment; look at every process that comes of it.

    ``place``: a folder for what the watching needs, which the command does not write to.
    """
    log = place / f"started-{secrets.token_hex(4)}"
    log.touch()
    (place / "sitecustomize.py").write_text(f"LOG = {str(log)!r}\n{_HOOK}")
    path = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        **{name: canaries.at(name) for name in ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "MY_SETTING")},
        "AZURE_STORAGE_CONNECTION_STRING": f"AccountKey={canaries.at('azure')}",
        "WALPROOF_STORE": f"postgresql://me:{canaries.at('store-environment')}@/no?host=/nowhere",
        "PGPASSWORD": canaries.at("PGPASSWORD"),
        **changes,
    }
    # In a session of its own: its words, which the user typed, are no leak of ours.
    process = subprocess.Popen(
        [sys.executable, "-m", "walproof", *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd,
        env={name: value for name, value in environment.items() if value},
    )  # fmt: skip
    watched = Watched(0, "", "")
    over = threading.Event()
    looker = threading.Thread(target=_look, args=(process.pid, canaries, watched, over), daemon=True)
    looker.start()
    try:
        watched.stdout, watched.stderr = process.communicate(timeout=240)
    finally:
        over.set()
        looker.join()
        if process.poll() is None:
            process.kill()
            process.communicate()
    watched.status = process.returncode
    for line in log.read_text().splitlines():
        words, given = json.loads(line)
        _judge("start", words, given.items(), canaries, watched)
    watched.leaks |= {f"stdout: {canary}" for canary in canaries.found_in(watched.stdout)}
    watched.leaks |= {f"stderr: {canary}" for canary in canaries.found_in(watched.stderr)}
    return watched


def leaks_in_files(folder: Path, canaries: Canaries) -> set[str]:
    """Of all that lies below the folder, decompressed."""
    return {
        f"{path.relative_to(folder)}: {canary}"
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
        for canary in canaries.found_in(contents(path))
    }


def open_to_others(folder: Path) -> list[str]:
    """Files and folders below it that others than their owner may look at."""
    return [
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if not path.is_symlink() and path.stat().st_mode & 0o077
    ]


def _look(pid: int, canaries: Canaries, watched: Watched, over: threading.Event) -> None:
    """Look at all processes that come of ``pid``, until told."""
    seen: set[tuple[object, ...]] = set()
    arguments: list[str] = []
    while not over.is_set():
        for process in _descendants(pid):
            with suppress(psutil.Error, OSError):
                arguments = arguments or psutil.Process(pid).cmdline()
                words, environment = process.cmdline(), process.environ()
                # Between fork and exec it is a copy of the command itself.
                if arguments in (words, process.cmdline()) or (process.pid, *words) in seen:
                    continue
                seen.add((process.pid, *words))
                _judge("process", words, environment.items(), canaries, watched)
        time.sleep(_LOOK_S)


def _descendants(pid: int) -> Iterator[psutil.Process]:
    with suppress(psutil.Error):
        yield from psutil.Process(pid).children(recursive=True)


def _judge(
    where: str,
    words: list[str],
    environment: Iterable[tuple[str, str]],
    canaries: Canaries,
    watched: Watched,
) -> None:
    if not words:
        return
    program = Path(words[0]).name
    watched.programs.add(program)
    watched.leaks |= {
        f"{where}, words of {program}: {canary}" for canary in canaries.found_in(" ".join(words))
    }
    for name, value in environment:
        if name not in _MEANT_FOR_IT.get(program, set()):
            watched.leaks |= {
                f"{where}, {name} of {program}: {canary}" for canary in canaries.found_in(value)
            }
