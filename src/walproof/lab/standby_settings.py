"""Settings with which the standbys of a study cannot be made, followed or compared, or are waited for where
there are none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from walproof.errors import SettingError, StudyError
from walproof.lab.asked import Asked
from walproof.settings.catalogue import normalise


@dataclass(frozen=True, slots=True)
class Refused:
    """A setting that no trial of a kind could run with."""

    name: str
    """Its name, or a pattern of names."""
    value: str | None
    """Its value as SHOW prints it; None: any but the default, which is 0 or empty."""
    why: str
    """What cannot be: the beginning of a sentence that ends in "with NAME=VALUE"."""
    hint: str


OF_STANDBYS = (
    Refused("wal_level", "minimal", "a standby cannot be made", "Use replica or logical."),
    Refused(
        r"recovery_target(_(time|xid|lsn|name))?", None, "a standby does not replay all WAL", "Leave it out."
    ),
)
"""For every kind that has standbys."""
OF_STREAMS = (
    Refused(r"max_(wal_senders|replication_slots)", "0", "a standby cannot stream", "Leave it out."),
)
"""For kinds whose standbys are up beside their primary."""
WITHOUT_STANDBYS = (
    Refused(
        "synchronous_standby_names",
        None,
        "commits would wait for a standby that does not exist",
        "Leave it out. Studies that have [failover] have standbys that commits wait for.",
    ),
)
"""For kinds that have none beside the server that is loaded."""


def refuse_settings(asked: Asked, refused: Sequence[Refused]) -> None:
    """Refuse what is typed for all variants, for one of them, or as the level of a factor, if no trial could
    run with it. Raises StudyError."""
    for where, name, value in _typed(asked):
        for row in refused:
            if re.fullmatch(row.name, name.lower()) and _is(row, name, value):
                raise StudyError(
                    f"{row.why} with {name}={value}", detail=f"It is set {where}.", hint=row.hint
                )


def _typed(asked: Asked) -> Iterator[tuple[str, str, str]]:
    study = asked.study
    for name, value in {**study.base, **asked.overrides.base}.items():
        yield "for every variant", name, value
    for variant in study.variant:
        for name, value in variant.settings.items():
            yield f'in variant "{variant.name}"', name, value
    for name, levels in study.factors.items():
        for value in levels:
            yield "as the level of a factor", name, value


def _is(row: Refused, name: str, value: str) -> bool:
    try:
        known = normalise(name, value)
    except SettingError:
        return False  # what no server takes is refused with all other settings
    return known not in ("", "0") if row.value is None else known == row.value
