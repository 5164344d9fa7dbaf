"""A stand-in for auditctl where there is none or it is refused: it keeps the kernel's part in a file.

It knows what walproof asks of it, and answers in the words of auditctl 3.0.9.
"""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

_PROGRAM = """#!{python} -IS
import json, os, sys
path = {state!r}
with open(path) as file:
    state = json.load(file)
words = sys.argv[1:]
if state["refuses"]:
    sys.exit("You must be root to run this program.")
names = {{"-e": "enabled", "-f": "failure", "-r": "rate_limit", "-b": "backlog_limit"}}
if words == ["-s"]:
    print("\\n".join(f"{{name}} {{value}}" for name, value in state["status"].items()))
elif words == ["-l"]:
    print("\\n".join(state["rules"]) or "No rules")
elif words[0] == "-a":
    state["rules"].append("-a " + " ".join(words[1:-2]) + " -F key=" + words[-1])
elif words[:2] == ["-D", "-k"]:
    state["rules"] = [rule for rule in state["rules"] if not rule.endswith("key=" + words[2])]
else:
    for option, value in zip(words[::2], words[1::2]):
        state["status"][names[option]] = int(value)
        state["asked"].append(option + " " + value)
with open(path + ".new", "w") as file:
    json.dump(state, file)
os.replace(path + ".new", path)
"""
UNTOUCHED = {"enabled": 0, "failure": 1, "pid": 0, "rate_limit": 7, "backlog_limit": 320, "lost": 0}


class StandIn:
    """``folder`` holds the program and what it keeps."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self._state = folder / "state.json"
        program = folder / "auditctl"
        program.write_text(_PROGRAM.format(python=python, state=str(self._state)))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.begin()

    def begin(self, *rules: str, refuses: bool = False, **status: int) -> None:
        """Begin anew with that."""
        state = {"refuses": refuses, "rules": rules, "status": {**UNTOUCHED, **status}, "asked": []}
        self._state.write_text(json.dumps(state))

    def lose(self, records: int) -> None:
        """As the kernel does beyond its rate limit."""
        state = self._read()
        state["status"]["lost"] += records
        self._state.write_text(json.dumps(state))

    @property
    def rules(self) -> list[str]:
        return list(self._read()["rules"])

    @property
    def status(self) -> dict[str, int]:
        return dict(self._read()["status"])

    @property
    def asked(self) -> list[str]:
        """Options that changed the state, in order."""
        return list(self._read()["asked"])

    def _read(self) -> dict[str, Any]:
        return dict(json.loads(self._state.read_text()))
