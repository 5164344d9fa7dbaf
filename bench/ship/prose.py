"""Reads the documents for wordings that a reader stumbles over, and says what to write instead.

    make lint

A kept prose linter was looked for: Vale's packages fetch a program when they are used, and proselint judges
quotes and ellipses of code. So the rules are a list, one line for each wording that was once mended.
Exit status: 0 nothing was found, 1 something was.
"""

from __future__ import annotations

import re
import sys
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


def main() -> int:
    """Print what was found."""
    found = [(name, *complaint) for name, text in pages() for complaint in complaints(text)]
    for name, line, words, instead in found:
        sys.stdout.write(f'{name}:{line}: "{words}": {instead}\n')
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
