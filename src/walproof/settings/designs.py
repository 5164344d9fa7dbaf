"""The design by which a setting's effect is measured, from ``designs.csv``.

``toggled`` is for settings that a reload changes at once and that leave nothing behind, which neighbouring
slices of a server would share. ``sliced`` is for settings that act only under load, not at checkpoints or by
time, so that short slices of servers that take turns show the effect. ``cycles`` is for settings of which
only windows that hold checkpoints show anything. A setting that nobody has looked at is measured on separate
servers, each by itself (``fresh``). ``shown`` names the run that showed a design to agree with that one: a
setting is sliced by itself only then; where a toggled one has none, its plan and its report say so.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from walproof.settings.catalogue import Catalogue, is_custom
from walproof.settings.value import Context

_TABLE = Path(__file__).with_name("designs.csv")
_BY_RELOAD = (Context.SESSION, Context.SUPERUSER_SESSION, Context.RELOAD)


@dataclass(frozen=True, slots=True)
class DesignOf:
    """What is known about measuring a setting."""

    name: str
    is_toggled: bool
    """Whether it may be toggled on one server."""
    is_sliced: bool
    """Whether it may be measured in slices of servers that take turns; true for toggled settings, too."""
    acts_at_checkpoints: bool
    """Whether slices and windows without a checkpoint show nothing of it."""
    shown: str
    """The run that showed its design to agree with `fresh` (bench/sure/agreement.py); empty without a run."""
    why: str
    """The reason, as the end of a sentence that begins with the setting's name."""
    source: str


@functools.cache
def designs() -> Mapping[str, DesignOf]:
    """Name -> what is known, for the settings that have been looked at."""
    with _TABLE.open(newline="", encoding="utf-8") as file:
        return {
            row["setting"]: DesignOf(
                row["setting"],
                row["design"] == "toggled",
                row["design"] in ("toggled", "sliced"),
                row["design"] == "cycles",
                row["shown"],
                row["why"],
                row["source"],
            )
            for row in csv.DictReader(file)
        }


def acts_at_checkpoints(name: str) -> bool:
    """Whether only windows that hold checkpoints show anything of the setting, as far as is known."""
    known = designs().get(name.lower())
    return known is not None and known.acts_at_checkpoints


def untoggled(name: str, version_num: int) -> str | None:
    """Why the setting cannot be toggled on a server of that version; None if it can.

    Raises SettingError for a setting that the version does not have.
    """
    known = designs().get(name.lower())
    if known is not None and not known.is_sliced:
        return f"{name} {known.why}"
    if not is_custom(name):
        context = Catalogue.for_version(version_num).get(name).context
        if context not in _BY_RELOAD:
            return f"{name} changes with a {context.value} only"
    if known is not None and not known.is_toggled:
        return f"{name} {known.why}"
    if known is None:
        return f"nobody has shown that toggling {name} leaves nothing behind"
    return None


def unsliced(name: str, *, is_asked: bool = False) -> str | None:
    """Why the setting cannot be measured in slices of servers that take turns; None if it can.

    ``is_asked``: the user wants slices, so that only known obstacles forbid them. Otherwise a setting is
    sliced only if slices were shown to agree with separate servers, or if it may be toggled.
    """
    known = designs().get(name.lower())
    if known is None:
        return None if is_asked else f"nobody has shown that {name} acts under load alone"
    if not known.is_sliced:
        return f"{name} {known.why}"
    if is_asked or known.is_toggled or known.shown:
        return None
    return f"nobody has shown on servers yet that slices of {name} agree with separate servers"
