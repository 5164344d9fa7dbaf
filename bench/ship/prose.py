"""Reads documents, docstrings and comments for wordings that readers stumble over; names better ones.

    make lint

A kept prose linter was looked for: Vale's packages fetch a program when they are used, and proselint judges
quotes and ellipses of code. So the rules are a list, one line for each wording that was once mended.
Exit status: 0 nothing was found, 1 something was.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
RULES: tuple[tuple[str, str], ...] = (
    (r"\bat or behind\b", "at or after"),
    (r"\b(go(es)?|went) on behind\b", "go on after"),
    (r"\bbehind (the )?(missing|damage)", "after"),
    (r"\bbesides\.", '"as well", or name what comes on top'),
    (r"\b(one|its|their) own's\b", "the noun"),
    (r"\bof (its|their|his|her) own\.\*\*", "the noun that it owns"),
    (r"\bone's own\b", "your"),
    (r"\bwhose end\b", "at the end of which"),
    (r"\bbetween what\b", "between which values"),
    (r"\bthe best there is\b", "say what is better"),
    (r"\bis known of\b", "is known about"),
    (r"\bof who\b", "of whoever"),
    (r"\bfor who\b", "for whoever"),
    (r"\bwho is behind whom\b", "which standby is behind which server"),
    (r"\ba look and server\b", "per look and server"),
    (r"\bwill not be able to\b", "cannot"),
    (r"\b(utili[sz]e|leverage|in order to|seamless(ly)?|simply|obviously)\b", "a plain word, or none"),
    (r"\b([a-z]{2,})[ \n]\1\b", "the word once"),
    (
        r"\b(colour|behaviour|randomise|optimise)[ds]?\b.*\b(color|behavior|randomize|optimize)",
        "one spelling",
    ),
)
_CODE = re.compile(r"^```.*?^```|`[^`]*`|<[^>]*>|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
_ALLOWED = {"had had", "that that"}


def complaints(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, what stands there, and what to write."""
    blanked = _CODE.sub(lambda match: re.sub(r"[^\n]", "\x00", match[0]), text)
    for pattern, instead in RULES:
        for match in re.finditer(pattern.replace(" ", r"\s+"), blanked, re.IGNORECASE):
            found = " ".join(match[0].split())
            if found.lower() not in _ALLOWED:
                yield blanked.count("\n", 0, match.start()) + 1, found, instead


def pages() -> Iterator[tuple[str, str]]:
    """Name and text of every document."""
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        if path.name != "CHANGELOG.md":
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def sources() -> Iterator[tuple[str, str]]:
    """Name and text of every source file: docstrings and comments on their lines, all other lines empty."""
    for folder in ("src", "tests", "bench", "crates"):
        for path in sorted((ROOT / folder).rglob("*.*")):
            if "target" in path.parts or path.suffix not in (".py", ".rs"):
                continue
            text = path.read_text(encoding="utf-8")
            words = words_of_python(text) if path.suffix == ".py" else words_of_rust(text)
            yield str(path.relative_to(ROOT)), words


def words_of_python(text: str) -> str:
    """Docstrings, strings below fields, and comments."""
    given = text.split("\n")
    lines = [""] * len(given)
    for node in ast.walk(ast.parse(text)):
        # Also the strings below fields, which say what these are.
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            for at in range(value.lineno - 1, value.end_lineno or value.lineno):
                lines[at] = given[at].replace('"""', "")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = token.string.lstrip("# ")
    return "\n".join(lines)


def words_of_rust(text: str) -> str:
    """Comments of all kinds that begin with two slashes."""
    found = (re.match(r"\s*//[/!]?\s?(.*)", line) for line in text.splitlines())
    return "\n".join(match[1] if match else "" for match in found)


def main() -> int:
    """Print what was found."""
    texts = (*pages(), *sources())
    found = [(name, *complaint) for name, text in texts for complaint in complaints(text)]
    for name, line, words, instead in found:
        sys.stdout.write(f'{name}:{line}: "{words}": {instead}\n')
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
