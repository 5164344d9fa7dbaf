"""Amazon RDS and Aurora: parameter groups, through the AWS CLI or Terraform."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from walproof.platforms.base_units import in_base_unit, is_restart
from walproof.platforms.plain import refuse_by_catalogue
from walproof.platforms.platform import Lines, PlatformTarget, Refusal
from walproof.platforms.rules import is_static, refuse_by_rules
from walproof.settings.change import Change

_DEFAULT_GROUP = "The default parameter group cannot be changed: make a group of your own and assign it."
_TYPES = (
    "Whether a parameter needs a reboot is AWS's to say. Where a call is refused with \"cannot use immediate "
    'apply method for static parameter", write pending-reboot.'
)


@dataclass(frozen=True)
class ParameterGroup:
    """A parameter group of instances (RDS) or of a cluster (Aurora), through the AWS CLI."""

    name: str
    kind: str
    """``db`` or ``db-cluster``."""

    def refuse(self, change: Change, target: PlatformTarget) -> Refusal | None:
        """Decide by the catalogue and the platform's rules."""
        return refuse_by_catalogue(change, target) or refuse_by_rules(self.name, change, target.version_num)

    def write(self, changes: Sequence[Change], target: PlatformTarget) -> Lines:
        """``modify-...-parameter-group``, a call for each setting, since AWS refuses a whole call for one
        wrong ApplyMethod; defaults come back by ``reset-...``."""
        kept = [
            change for change in changes if (was := target.before.get(change.name)) and not was.is_default
        ]
        reset = [change for change in changes if change not in kept]
        undo = []
        if kept:
            old = [Change(change.name, target.before[change.name].value) for change in kept]
            undo += [self._call("modify", parameter(change, target)) for change in old]
        if reset:
            bare = [
                {name: value for name, value in parameter(change, target).items() if name != "ParameterValue"}
                for change in reset
            ]
            undo += [self._call("reset", each) for each in bare]
        apply = [self._call("modify", parameter(change, target)) for change in changes]
        return Lines(
            "\n".join(apply),
            "\n".join(undo),
            (_DEFAULT_GROUP, _TYPES, *_reboot(changes, target), *_keep_note(kept)),
            (self._types(changes), *((self._keep(),) if kept else ())),
        )

    def _call(self, verb: str, parameter: dict[str, str]) -> str:
        return (
            f"aws rds {verb}-{self.kind}-parameter-group --{self.kind}-parameter-group-name GROUP "
            f"--parameters '{json.dumps([parameter])}'"
        )

    def _keep(self) -> tuple[str, str]:
        return (
            "To keep what the group has",
            f"aws rds describe-{self.kind}-parameters --{self.kind}-parameter-group-name GROUP --source user "
            "> before.json",
        )

    def _types(self, changes: Sequence[Change]) -> tuple[str, str]:
        """How to see what AWS itself says of the parameters: families of versions differ."""
        named = "||".join(f"ParameterName=='{change.name}'" for change in changes)
        shown = "[ParameterName,ApplyType,IsModifiable,AllowedValues]"
        return (
            "To see which parameters need a reboot",
            f"aws rds describe-{self.kind}-parameters --{self.kind}-parameter-group-name GROUP "
            f'--query "Parameters[?{named}].{shown}" --output table',
        )


def _keep_note(kept: Sequence[Change]) -> tuple[str, ...]:
    """What undoing does not know: a server tells the values of its group, AWS's defaults and what comes of a
    formula alike as lines of a file."""
    if not kept:
        return ()
    return (
        f"Undoing it writes what the server has now of {', '.join(change.name for change in kept)}, even if "
        "the group has no value of its own or a formula. Keep what the group has before you apply it.",
    )


def parameter(change: Change, target: PlatformTarget) -> dict[str, str]:
    """One parameter as the API takes it: whole numbers in the base unit, booleans as 0 and 1."""
    value = in_base_unit(change.name, change.value, target.version_num, true="1", false="0")
    method = "pending-reboot" if _waits(change.name, target.version_num) else "immediate"
    return {"ParameterName": change.name, "ParameterValue": value, "ApplyMethod": method}


class Terraform:
    """The same group as a resource of Terraform."""

    name = "rds-terraform"

    def refuse(self, change: Change, target: PlatformTarget) -> Refusal | None:
        """Decide as RDS does."""
        return RDS.refuse(change, target)

    def write(self, changes: Sequence[Change], target: PlatformTarget) -> Lines:
        """Write blocks of an aws_db_parameter_group; undoing brings back the version before."""
        old = [
            Change(change.name, was.value)
            for change in changes
            if (was := target.before.get(change.name)) is not None and not was.is_default
        ]
        gone = [change.name for change in changes if change.name not in {was.name for was in old}]
        undo = [_block(change, target) for change in old]
        undo += [f"# {name}: take its block out" for name in gone]
        return Lines(
            "\n".join(_block(change, target) for change in changes),
            "\n".join(undo),
            (_DEFAULT_GROUP, *_reboot(changes, target), *_earlier(old)),
        )


def _earlier(old: Sequence[Change]) -> tuple[str, ...]:
    """As of the group itself: where the file had no block, or a formula, its own version before is right."""
    if not old:
        return ()
    return (
        f"Undoing it writes what the server has now of {', '.join(change.name for change in old)}: where "
        "your file had another block or none, bring that back instead.",
    )


def _block(change: Change, target: PlatformTarget) -> str:
    told = parameter(change, target)
    return (
        "parameter "
        f'{{\n  name         = "{told["ParameterName"]}"\n  value        = "{told["ParameterValue"]}"\n'
        f'  apply_method = "{told["ApplyMethod"]}"\n}}'
    )


def _waits(name: str, version_num: int) -> bool:
    """Whether AWS calls the parameter static."""
    return is_restart(name, version_num) or is_static("rds", name, version_num)


def _reboot(changes: Sequence[Change], target: PlatformTarget) -> tuple[str, ...]:
    waiting = [change.name for change in changes if _waits(change.name, target.version_num)]
    return (f"In force after a reboot: {', '.join(waiting)}.",) if waiting else ()


RDS = ParameterGroup("rds", "db")
AURORA = ParameterGroup("aurora", "db-cluster")
