"""Simulated WAL of the advised configuration, compared with a run as long as the recording."""

from __future__ import annotations

from collections.abc import Sequence

from walproof.advise.tune.crashes import WalCheck
from walproof.advise.tune.shown_by import ShownBy, shown_by
from walproof.facts.tuning import Candidate
from walproof.report.blocks import Column, Table, text_cells
from walproof.report.numbers import UNKNOWN, percent

_FAR = 0.1
"""Share by which measured WAL may differ from the prediction before the report warns."""
_ALIKE = (0.75, 1.33)
"""Range of the run's transactions, relative to those recorded, in which the two are comparable."""
_NOTE = (
    "WAL per transaction relative to the recording's: simulated for just the recorded stretch, and measured "
    "in the run before the crash. That run is made to have about as many transactions, and it also begins "
    "after a checkpoint."
)


def wal_sentences(conf: Candidate, checks: Sequence[WalCheck]) -> list[str]:
    """What was checked of the lines that act at checkpoints, or that nothing was checked."""
    unseen = [name for name, _ in conf.settings if shown_by(name) is ShownBy.NOTHING]
    lines = [name for name, _ in conf.settings if shown_by(name) is ShownBy.SIMULATION]
    found = []
    if lines and not checks:
        found.append(
            f"What {', '.join(lines)} does at checkpoints was simulated and not checked: there is no run as "
            "long as the recording to compare it with."
        )
    elif lines:
        found += [_sentence(check) for check in checks]
    if unseen:
        found.append(
            f"What {', '.join(unseen)} does at checkpoints was neither simulated nor checked: no simulation "
            "knows it, and windows show it only if a checkpoint falls into them."
        )
    return found


def _sentence(check: WalCheck) -> str:
    where = "" if check.host is None else f"On {check.host}: "
    text = (
        f"{where}WAL per transaction in a run as long as the recording: {percent(check.measured)} of the "
        f"defaults', {percent(check.predicted)} predicted"
    )
    least, most = _ALIKE
    if not least <= check.transactions <= most:
        return f"{text}; it had {percent(check.transactions)} of the transactions, so the two are not alike."
    if abs(check.off - 1) > _FAR:
        return f"{text}: THE SIMULATION IS OFF here, and so may be its times away and sizes of pg_wal."
    return f"{text}."


def wal_tables(checks: Sequence[WalCheck]) -> tuple[Table, ...]:
    """The table of checks, if there were any."""
    if not checks:
        return ()
    columns = (
        Column("run"), Column("predicted", numeric=True), Column("measured", numeric=True),
        Column("transactions", numeric=True), Column("checkpoints", numeric=True),
    )  # fmt: skip
    rows = [
        text_cells(
            (
                check.host or str(number), percent(check.predicted), percent(check.measured),
                percent(check.transactions), UNKNOWN if check.checkpoints is None else str(check.checkpoints),
            )
        )
        for number, check in enumerate(checks, 1)
    ]  # fmt: skip
    return (Table("WAL", columns, tuple(rows), _NOTE),)
