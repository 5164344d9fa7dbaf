"""Names of a factorial study's cells, shortened to the room in a chart."""

from __future__ import annotations

from collections.abc import Iterable

from walproof.report.figures.style import SYMBOLS

_MARKS = tuple(f"{symbol} " for symbol in SYMBOLS.values())


def factors_of(names: Iterable[str]) -> tuple[str, ...]:
    """The two or more settings of which each name gives a level, in that order; otherwise none."""
    found = {tuple(part.partition("=")[:2] for part in _bare(name).split(", ")) for name in names}
    if len(found) != 1:
        return ()
    (parts,) = found
    is_of_levels = len(parts) > 1 and all(sign for _, sign in parts)
    return tuple(name for name, _ in parts) if is_of_levels else ()


def levels_of(name: str) -> str:
    """The name of such a cell without its settings; a mark before it stays."""
    bare = _bare(name)
    mark = name[: len(name) - len(bare)]
    return mark + ", ".join(part.partition("=")[2] for part in bare.split(", "))


def _bare(name: str) -> str:
    return name[2:] if name.startswith(_MARKS) else name
