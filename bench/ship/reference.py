"""Writes the pages of the reference that are made from the program: commands, settings, JSON.

make site        # build/reference/*.md, then site/
"""

from __future__ import annotations

import csv
import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bench.ship import schemas
from bench.ship.command_tree import Command, Entry, commands
from walproof.advise import finding
from walproof.analysis import effect
from walproof.facts import run
from walproof.report import json as report_json

ROOT = Path(__file__).parent.parent.parent
TARGET = ROOT / "build" / "reference"
SETTINGS = ROOT / "src" / "walproof" / "settings"
STRUCTURES = (run.Run, run.Trial, effect.Effect, finding.Finding)
"""Of what --json prints: what the keys of an object are is declared in these."""
_LARGER = {
    "B": (1024, "kB"), "kB": (1024, "MB"), "MB": (1024, "GB"),
    "ms": (1000, "s"), "s": (60, "min"), "min": (60, "h"), "h": (24, "d"),
}  # fmt: skip
"""The next larger unit of a unit, and how many of it make one (guc.c: memory_unit_conversion_table)."""


def commands_page(tree: Iterable[Command]) -> str:
    """Return a chapter for each command, in the order of --help."""
    lines = ["# Commands", "", "`walproof COMMAND --help` says the same; `man walproof`, too.", ""]
    for command in tree:
        lines += [f"{'#' * min(len(command.words) + 1, 3)} {command.name}", ""]
        lines += [f"`{command.name} {command.usage}`", ""]
        for paragraph in (command.summary, *command.details):
            lines += [_plain(paragraph), ""]
        for heading, entries in (("argument", command.arguments), ("option", command.options)):
            lines += _table((heading, "meaning"), (_row(entry) for entry in entries))
    return "\n".join(lines)


def _row(entry: Entry) -> tuple[str, str]:
    return f"`{entry.written}`", _plain(entry.meaning)


def settings_page() -> str:
    """Return the page of settings of the write path: in which versions they are, and what they risk."""
    risks = list(_rows("durability.csv"))
    known: dict[str, list[dict[str, str]]] = {}
    for row in _rows("catalogue.csv"):
        known.setdefault(row["name"], []).append(row)
    lines = [
        "---\nhide:\n  - toc\n---",
        "# Settings",
        "",
        "The settings of which walproof knows a risk or a cost.",
        "Names, versions and defaults were read from servers; defaults are those before initdb.",
        "The class is that of the values beside it; `none` loses nothing that was acknowledged.",
        "",
    ]
    lines += _table(
        ("setting", "versions", "default", "changed by", "class", "risk", "what it buys or costs"),
        (
            (
                f"[`{risk['name']}`]({risk['doc']})" if risk["doc"] else f"`{risk['name']}`",
                *_versions(known.get(risk["name"], [])),
                " ".join(
                    filter(
                        None, (risk["durability_class"], risk["risky_values"] and f"({risk['risky_values']})")
                    )
                ),
                _plain(risk["risk"]),
                _plain(risk["tradeoff"]),
            )
            for risk in risks
        ),
    )
    return "\n".join(lines)


def _versions(rows: Sequence[Mapping[str, str]]) -> tuple[str, str, str]:
    """Return the versions that have a setting, its default and who changes it.

    A setting has a row for each stretch of versions in which its definition is the same; what differs between
    them is shown with the first version that has it.
    """
    if not rows:
        return "-", "-", "-"
    versions = f"{rows[0]['since']} to {rows[-1]['until']}"
    return versions, _by_version(rows, _default), _by_version(rows, lambda row: row["context"])


def _by_version(rows: Sequence[Mapping[str, str]], cell: Callable[[Mapping[str, str]], str]) -> str:
    shown = [cell(rows[0])]
    last = shown[0]
    for row in rows[1:]:
        text = cell(row)
        if text != last:
            shown.append(f"from {row['since']} {text}")
        last = text
    return "; ".join(shown)


def _default(row: Mapping[str, str]) -> str:
    """Return a default as SHOW prints it: 16384 of 8kB is 128MB; -1 has no unit."""
    boot = row["boot"]
    if not boot:
        return "-"
    unit = re.fullmatch(r"(\d*)([A-Za-z]+)", row["unit"])
    if unit is None or row["vartype"] != "integer" or int(boot) <= 0:
        return f"`{boot}`"
    number, word = int(boot) * int(unit[1] or 1), unit[2]
    while word in _LARGER and number % _LARGER[word][0] == 0:
        step, word = _LARGER[word]
        number //= step
    return f"`{number}{word}`"


def json_page() -> str:
    """Return the page about --json: the schemas, and the machine form of a run."""
    lines = [
        "# JSON",
        "",
        "A command that prints a result prints it for machines with `--json`. These schemas (JSON Schema,",
        "2020-12) say which keys an output has. Keys stay; new ones may come.",
        "",
    ]
    rows = [(f"[{name}](schemas/{name}.json)", f"`{words}`") for name, (_, words) in schemas.OUTPUTS.items()]
    lines += _table(("schema", "printed by `walproof`"), rows)
    lines += [
        "A study file, read as TOML, is an object of the schema [study](schemas/study.json).",
        "",
        "## A run",
        "",
        "`walproof show RUN --json`, `report RUN --format json` and `run --json` print one object.",
        "",
    ]
    lines += ["```", (report_json.__doc__ or "").strip(), "```", ""]
    for structure in STRUCTURES:
        about = (structure.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
        lines += [f"## {structure.__name__}", "", _plain(about), ""]
        lines += _table(
            ("key", "type"),
            ((f"`{field.name}`", f"`{field.type!s}`") for field in dataclasses.fields(structure)),
        )
    return "\n".join(lines)


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (SETTINGS / name).open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    body = ["| " + " | ".join(row) + " |" for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body, ""] if body else []


def _plain(text: str) -> str:
    """Escape the characters that mean something to Markdown."""
    for mark in ("\\", "<", "*", "_", "[", "|"):
        text = text.replace(mark, f"\\{mark}")
    return text


def pages() -> dict[str, str]:
    """Return every page by the name of its file."""
    return {"commands.md": commands_page(commands()), "settings.md": settings_page(), "json.md": json_page()}


def main() -> int:
    """Write the pages."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (TARGET / name).write_text(text + "\n", encoding="utf-8")
    folder = TARGET / "schemas"
    folder.mkdir(exist_ok=True)
    for name, text in schemas.files().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
