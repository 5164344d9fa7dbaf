"""Makes docs/glossary.md from one table, bench/ship/glossary.csv, and says which words have no line.

    make docs

Checked are the words of long options, of the top keys of every JSON output, and of the titles of pages. A
word is a term of the glossary or stands in bench/ship/ordinary_words.txt.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from bench.ship import schemas
from bench.ship.command_tree import commands

ROOT = Path(__file__).parent.parent.parent
TARGET = ROOT / "docs" / "glossary.md"
_HEAD = """# Glossary

One word means one thing, in commands, settings, JSON keys, headings and code. Words of PostgreSQL mean what
its manual says. `make docs` writes this page from `bench/ship/glossary.csv`.

| word | meaning | walproof does not say |
|---|---|---|
"""


def rows() -> list[dict[str, str]]:
    """A term, its meaning, and the words that it replaces."""
    with (Path(__file__).parent / "glossary.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def page() -> str:
    """Return the page, with terms in alphabetical order."""
    return _HEAD + "".join(f"| {row['word']} | {row['meaning']} | {row['not'] or ''} |\n" for row in rows())


def ordinary() -> list[str]:
    """Return the words that need no line."""
    return (Path(__file__).parent / "ordinary_words.txt").read_text(encoding="utf-8").split()


@cache
def used() -> dict[str, str]:
    """Return each word that needs a line or is ordinary, with a place where it stands."""
    return {word: place for text, place in _texts() for word in re.findall(r"[a-z]{3,}", text.lower())}


def _texts() -> Iterator[tuple[str, str]]:
    for command in commands():
        for option in command.options:
            yield (
                " ".join(re.findall(r"--([a-z][a-z-]*)", option.written)),
                f"{command.name}: {option.written}",
            )
    for name in schemas.OUTPUTS:
        for key in _top_keys(schemas.schema(name)):
            yield key.replace("_", " "), f"schema {name}: {key}"
    for path in sorted((ROOT / "docs").rglob("*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0]
        yield re.sub(r"`[^`]*`", "", title), f"title of {path.name}: {title}"


def _top_keys(schema: dict[str, object]) -> Iterable[str]:
    items, kinds = schema.get("items"), schema.get("anyOf", [])
    references = [items] if isinstance(items, dict) else kinds
    assert isinstance(references, list)
    nodes: list[dict[str, object]] = [schema]
    if references:
        definitions = schema["$defs"]
        assert isinstance(definitions, dict)
        nodes = [definitions[str(reference["$ref"]).rpartition("/")[2]] for reference in references]
    found: dict[str, None] = {}
    for node in nodes:
        properties = node["properties"]
        assert isinstance(properties, dict)
        found.update(dict.fromkeys(properties))
    return found


def unknown() -> dict[str, str]:
    """Return words without a line, with the place."""
    terms = {part for row in rows() for part in re.findall(r"[a-z]+", row["word"].lower())}
    known = terms | set(ordinary())
    return {word: place for word, place in used().items() if not known & set(_forms(word))}


def _forms(word: str) -> Iterator[str]:
    yield word
    yield word.removesuffix("s")
    yield word.removesuffix("es")
    yield word.removesuffix("d")
    yield word.removesuffix("ies") + "y"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
    print(TARGET)
