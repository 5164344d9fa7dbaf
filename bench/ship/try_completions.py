"""Tries the completions of bash, fish and zsh: each shell that is installed is asked what may follow.

    PYTHONPATH=. .venv/bin/python bench/ship/try_completions.py     # apt install fish zsh

Exit status: 0 every shell that is there completes, 1 one does not, 2 none is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = (
    ("walproof wal ", ("stats", "whatif", "verify", "records")),
    ("walproof rec", ("recovery",)),
    ("walproof watch --recovery-", ("--recovery-target",)),
)
"""What was typed, and words that must be offered."""

_BASH = """
source "$1"; COMP_LINE=$2; COMP_POINT=${#2}
read -r -a COMP_WORDS <<< "$2"; [[ $2 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_walproof_completion walproof "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
_FISH = "source $argv[1]; complete --do-complete $argv[2]"
_ZSH = """
autoload -Uz compinit; compinit -D
source "$1"
[[ -n ${_comps[walproof]} ]] || { print "nothing completes walproof"; exit 1 }
# What the function would offer, printed: a line editor is not there.
_arguments() { print -r -- "$@" }
words=(${=2}); [[ $2 == *" " ]] && words+=("")
CURRENT=${#words}
${_comps[walproof]}
"""


def ask(shell: str, script: Path, typed: str, environment: dict[str, str]) -> str:
    """What the shell prints when it is asked to complete the line."""
    words = {
        "bash": ["bash", "--norc", "-c", _BASH, "bash", str(script), typed],
        "fish": ["fish", "--no-config", "-c", _FISH, str(script), typed],
        "zsh": ["zsh", "-f", "-c", _ZSH, "zsh", str(script), typed],
    }[shell]
    done = subprocess.run(
        words,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout + done.stderr


def main() -> int:
    """Try each shell."""
    good, tried = True, 0
    with tempfile.TemporaryDirectory() as home:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": home, "TERM": "dumb", "LANG": "C.UTF-8", "COLUMNS": "120"}
        for shell in ("bash", "fish", "zsh"):
            if shutil.which(shell) is None:
                print(f"{shell}: not installed")
                continue
            tried += 1
            script = Path(home) / "_walproof"
            made = subprocess.run(
                ["walproof"], env={**environment, "_WALPROOF_COMPLETE": f"source_{shell}"},
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            script.write_text(made.stdout, encoding="utf-8")
            for typed, offered in CASES:
                said = ask(shell, script, typed, environment)
                missing = [word for word in offered if word not in said.removeprefix(typed)]
                good = good and not missing
                outcome = "offered" if not missing else f"missing {missing}: {said[-400:]!r}"
                print(f"{shell}: {typed!r}: {outcome}")
    return 2 if tried == 0 else 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
