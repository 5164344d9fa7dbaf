"""Writes the man page and the shells' completions, which a wheel carries.

    make man        # share/, laid out as it is installed

The page is made from the commands themselves. ``man -l share/man/man1/walproof.1`` shows it. man and
bash find what is in ``share`` beside the ``bin`` of the same install when that is on PATH. (Not in build/:
setuptools leaves that out of a source archive.)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.ship.command_tree import Command, Entry, commands
from walproof import __version__

ROOT = Path(__file__).parent.parent.parent
MAN_PAGE = ROOT / "share/man/man1/walproof.1"
COMPLETIONS = {
    "bash": ROOT / "share/bash-completion/completions/walproof",
    "fish": ROOT / "share/fish/vendor_completions.d/walproof.fish",
    "zsh": ROOT / "share/zsh/site-functions/_walproof",
}
"""The file that each shell looks for."""
ENVIRONMENT = (
    Entry("WALPROOF_CACHE", "Folder of prepared clusters, and of the PostgreSQL versions that were fetched."),
    Entry("WALPROOF_DATA", "Folder of this machine's calibrations."),
    Entry(
        "WALPROOF_KEEP_ENV",
        "Names of variables, with commas, that servers and clients get besides a fixed list.",
    ),
    Entry("WALPROOF_OBJECT_STORE_TIMEOUT", "How long a request to an object store is repeated: 10min."),
    Entry("WALPROOF_OUT", "Folder of results and reports, as --out."),
    Entry(
        "WALPROOF_SERVER_USER", "The user whose processes the servers are, when walproof is started as root."
    ),
    Entry("WALPROOF_STORE", "A store that several people share, as --store."),
    Entry("WALPROOF_WEB_TOKEN", "The token that the page in a browser asks for."),
)
FILES = (
    Entry("walproof-out/", "What runs store and write, in the folder in which they were started."),
    Entry("~/.cache/walproof", "Prepared clusters; /var/cache/walproof for root."),
)


def page(tree: Sequence[Command]) -> str:
    """Return the page in man's macros."""
    return "\n".join(_lines(tree)) + "\n"


def _lines(tree: Sequence[Command]) -> Iterator[str]:
    program, *rest = tree
    yield f'.TH WALPROOF 1 "" "walproof {__version__}" "User commands"'
    yield ".SH NAME"
    yield _text(f"walproof - {program.summary[0].lower()}{program.summary[1:].removesuffix('.')}")
    yield ".SH SYNOPSIS"
    yield f".B walproof\n{_text(program.usage)}"
    yield ".SH OPTIONS"
    yield from _entries(program.options)
    yield ".SH COMMANDS"
    for command in rest:
        yield f".SS {_text(command.name)}"
        for paragraph in (command.summary, *command.details):
            yield ".PP"
            yield _text(paragraph)
        if not command.is_group:
            yield ".PP"
            yield f".B {_text(command.name)}\n{_text(command.usage)}"
            yield from _entries(
                entry for entry in (*command.arguments, *command.options) if not _is_help(entry)
            )
    yield ".SH EXIT STATUS"
    yield from _entries(_statuses())
    yield ".SH ENVIRONMENT"
    yield from _entries(ENVIRONMENT)
    yield ".SH FILES"
    yield from _entries(FILES)


def _entries(entries: Iterator[Entry] | Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        yield ".TP"
        yield f".B {_text(entry.written)}"
        yield _text(entry.meaning)


def _statuses() -> list[Entry]:
    """Return the rows of the table in docs/exit-status.md, without Markdown's marks."""
    text = (ROOT / "docs" / "exit-status.md").read_text(encoding="utf-8")
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")
    return [Entry(*row) for row in re.findall(r"^\| (\d.*?) \| (.*) \|$", plain, re.MULTILINE)]


def _is_help(entry: Entry) -> bool:
    """Whether the option is ``--help``: it is shown once, among the program's options."""
    return entry.written.endswith("--help")


def _text(words: str) -> str:
    """Escape the characters that mean something to man."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return f"\\&{escaped}" if escaped.startswith((".", "\\(aq")) else escaped


def completion(shell: str) -> str:
    """The script that makes the shell ask walproof, as walproof itself prints it."""
    done = subprocess.run(
        [sys.executable, "-m", "walproof"], capture_output=True, text=True, check=True,
        env={**os.environ, "_WALPROOF_COMPLETE": f"source_{shell}"},
    )  # fmt: skip
    return done.stdout.strip() + "\n"  # zsh reads the first line


def main() -> int:
    """Write the files and say which."""
    written = {MAN_PAGE: page(commands())}
    for shell, path in COMPLETIONS.items():
        written[path] = completion(shell)
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
