"""The man page names every command and option, and shells complete commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from bench.ship.command_tree import commands
from bench.ship.man_page import completion, page
from tests.cli.command import environment

TREE = commands()
PAGE = page(TREE)
PLAIN = PAGE.replace("\\-", "-").replace("\\(aq", "'").replace("\\&", "").replace("\\e", "\\")


def test_every_command_has_its_section_with_its_options() -> None:
    assert {"walproof wal stats", "walproof tune", "walproof pg install"} <= {one.name for one in TREE}
    sections = dict(re.findall(r"^\.SS (.*)\n((?:(?!\.S[SH]).*\n)*)", PLAIN, re.MULTILINE))
    assert list(sections) == [command.name for command in TREE[1:]]
    for command in TREE[1:]:
        assert command.summary in sections[command.name]
        if command.is_group:
            continue
        written = re.findall(r"^\.TP\n\.B (.*)$", sections[command.name], re.MULTILINE)
        options = [one for one in command.options if not one.written.endswith("--help")]
        assert written == [one.written for one in (*command.arguments, *options)]


def test_man_takes_no_word_for_a_macro() -> None:
    """A line that begins with a dot or an apostrophe is a request to man."""
    requests = {line.split()[0] for line in PAGE.splitlines() if line.startswith((".", "'"))}
    assert requests == {".B", ".PP", ".SH", ".SS", ".TH", ".TP"}


def test_statuses_are_those_of_the_document() -> None:
    told = PLAIN.partition(".SH EXIT STATUS")[2].partition(".SH")[0]
    assert re.findall(r"^\.B (\d+)", told, re.MULTILINE) == ["0", "1", "2", "10", "11", "70", "128"]
    assert "](" not in told


def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    script = completion("bash")
    for words, completed in (("wal ver", "verify"), ("wal stats --resol", "--resolve")):
        asked = f"""{script}
COMP_WORDS=(walproof {words})
COMP_CWORD={len(words.split())}
_walproof_completion walproof
echo "${{COMPREPLY[@]}}"
"""
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        done = subprocess.run(
            ["bash", "--norc"], input=asked, capture_output=True, text=True, check=True, cwd=tmp_path,
            env=environment(PATH=path),
        )  # fmt: skip
        assert (done.stdout.strip(), done.stderr) == (completed, "")
