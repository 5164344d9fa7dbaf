"""Which costs a forecast of recovery is made with: files of calibrations and of logs are found here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from walproof.cli.options import WITHOUT_UNIT_LEAST
from walproof.errors import SettingError, StoreError
from walproof.units import parse_bytes

if TYPE_CHECKING:
    from walproof.analysis.forecast import Costs, OwnCrash

_READ_AHEAD_MOST = 1 << 30


def find_costs(path: Path | None, version: int, *, other_machine: bool | None = None) -> Costs:
    """The costs of the file, else of this machine's calibration, else the shipped ones.

    ``other_machine``: whether one is meant; None where the command has no such option. Raises StoreError when
    the file cannot be read or is, unless that is meant, of another machine or another major version than
    ``version``. Raises SettingError where another machine is meant and no file is given.
    """
    from walproof.analysis.forecast import MachineFacts, calibrated_costs, choose_costs, differences
    from walproof.facts.calibration import find_calibrations, read_calibration
    from walproof.probe.environment import this_machine

    if path is None and other_machine:
        raise SettingError(
            "--other-machine is for the machine of --calibration", hint="Name its file, or leave it out."
        )
    if path is None:
        at_hand = (calibration for _, calibration in find_calibrations())
        return choose_costs(at_hand, version, MachineFacts(*this_machine()))
    given = read_calibration(path)
    unlike = differences(given, version, MachineFacts(*this_machine()))
    if unlike and not other_machine:
        offered = "" if other_machine is None else "--other-machine predicts for that one; "
        raise StoreError(
            f'"{path}" is the calibration of another machine or server',
            detail="\n".join(unlike),
            hint=f"{offered}walproof recovery calibrate measures this one.",
        )
    return calibrated_costs(given)


def read_crash(path: Path) -> OwnCrash:
    """The last recovery in a server's log. Raises StoreError, and AnalysisError as `read_recovery_log`."""
    from walproof.analysis.forecast import OwnCrash
    from walproof.facts.recovery_log import read_recovery_log

    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise StoreError(f'could not read "{path}": {error.strerror}') from error
    return OwnCrash(read_recovery_log(text), f'"{path}"')


def read_ahead_of(text: str) -> int:
    """--read-ahead in kB. Raises SettingError, UnitError."""
    size = parse_bytes(text)
    if text.strip().isdigit() and 0 < size < WITHOUT_UNIT_LEAST:
        raise SettingError(
            f"--read-ahead {text.strip()} has no unit, so it would be bytes",
            detail="/sys/block/DISK/queue/read_ahead_kb has it in kB.",
            hint=f"Sizes are written like {text.strip()}kB.",
        )
    if size > _READ_AHEAD_MOST:
        raise SettingError(
            "--read-ahead is out of range",
            detail=f'Given: "{text}". Allowed: 0 (none) to 1GB.',
            hint="/sys/block/DISK/queue/read_ahead_kb has it, in kB.",
        )
    return size >> 10
