"""Tools of ``walproof mcp`` on the catalogue of settings: which exist, what they risk, what a value
means."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from walproof.errors import SettingError
from walproof.mcp.tool import Call, Tool, ToolAnswer, ToolArguments
from walproof.settings.catalogue import Catalogue, is_custom
from walproof.settings.ownership import FIXED
from walproof.settings.risk import about, durability_class, other_risks, risk_of
from walproof.settings.rules import contradictions, imply, notes
from walproof.settings.value import Context, Setting

_CLASSES = (
    "Durability classes, from safe to worst: none, may lose last commits, may lose table, may corrupt. None: "
    "a crash of this machine alone costs nothing. It says nothing of failovers, restores and slots."
)


class AskedSettings(ToolArguments):
    """Which settings."""

    words: str = Field(default="", max_length=200, description="Only settings with all of these words.")
    version: int = Field(default=18, description="Major version of PostgreSQL, 13 to 19.")
    all_settings: bool = Field(
        default=False,
        description="Also settings that do not bear on the write path, with default, unit and effect only.",
    )


class AskedCheck(ToolArguments):
    """Which values."""

    settings: dict[str, str | int | float | bool] = Field(
        min_length=1, description='Settings to check together: {"synchronous_commit": "off"}.'
    )
    version: int = Field(default=18, description="Major version of PostgreSQL, 13 to 19.")


def settings_tools() -> list[Tool]:
    """Tools that need only the catalogue."""
    return [
        Tool(
            "list_settings", "Settings of the write path",
            "Settings that bear on WAL, checkpoints, replication and durability, for a version: default, "
            "whether a change needs a restart, which values risk something, and the trade-off. "
            "check_settings says more about a setting.",
            AskedSettings, _list,
        ),
        Tool(
            "check_settings", "What settings risk",
            "Whether a version knows these settings and accepts these values, what a crash may cost with "
            "them (durability class), what else they risk (failover, restore, slots), whether a restart is "
            "needed, and which other settings they require. "
            "Ask this before you propose a setting.",
            AskedCheck, _check,
        ),
    ]  # fmt: skip


def _list(asked: AskedSettings, _call: Call) -> ToolAnswer:
    catalogue, known = Catalogue.for_version(asked.version * 10000), about()
    rows = []
    for setting in catalogue.settings.values():
        if setting.name not in known and not asked.all_settings:
            continue
        row = _in_short(setting)
        text = " ".join(map(str, row.values())).lower()
        if all(word in text for word in asked.words.lower().split()):
            rows.append(row)
    return ToolAnswer({"version": asked.version, "settings": sorted(rows, key=lambda row: str(row["name"]))},
                  (_CLASSES,))  # fmt: skip


def _in_short(setting: Setting) -> dict[str, Any]:
    names = ("name", "default", "unit", "takes_effect", "risk", "tradeoff")
    return {name: value for name, value in _row(setting).items() if name in names}


def _row(setting: Setting) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": setting.name,
        "type": setting.vartype,
        "unit": setting.unit,
        "default": setting.boot or None,
        "takes_effect": setting.context.value,
        "minimum": setting.minimum,
        "maximum": setting.maximum,
        "values": list(setting.values) or None,
    }
    row = {name: value for name, value in row.items() if value is not None}
    if (known := about().get(setting.name)) is not None:
        if known.risky_values:
            risk = {
                "values": "any" if known.risky_values == ("*",) else list(known.risky_values),
                "only_with": None if known.only_with is None else "=".join(known.only_with),
                "durability_class": known.durability.value,
                "says": known.risk,
            }
            row["risk"] = {name: value for name, value in risk.items() if value is not None}
        row["tradeoff"] = known.tradeoff
        row["manual"] = known.doc
    return row


def _check(asked: AskedCheck, _call: Call) -> ToolAnswer:
    number = asked.version * 10000
    catalogue = Catalogue.for_version(number)
    given = {
        name: ("on" if value else "off") if isinstance(value, bool) else str(value)
        for name, value in asked.settings.items()
    }
    rows = [_checked(catalogue, name, value) for name, value in given.items()]
    taken = {name: value for (name, value), row in zip(given.items(), rows, strict=True) if row["taken"]}
    data = {
        "version": asked.version,
        "durability_class": durability_class(taken).value,
        "risks": [{"name": n, "durability_class": c.value, "risk": said} for n, c, said in risk_of(taken)],
        "other_risks": [{"name": name, "risk": said} for name, said in other_risks(taken)],
        "settings": rows,
        "come_along": imply(taken, number),
        "contradictions": contradictions(taken, number),
        "notes": notes(taken, number),
    }
    said = [_CLASSES]
    if len(taken) < len(given):
        said.append("The durability class is that of the settings that the server accepts.")
    return ToolAnswer(data, tuple(said))


def _checked(catalogue: Catalogue, name: str, value: str) -> dict[str, Any]:
    if is_custom(name):
        return {"name": name, "taken": True, "problem": "a setting of an extension, unknown here"}
    try:
        setting = catalogue.get(name)
        catalogue.check_value(setting, value)
    except SettingError as error:
        said = {"problem": error.message, "detail": error.detail, "hint": error.hint}
        return {"name": name, "value": value, "taken": False, **{k: v for k, v in said.items() if v}}
    if setting.context is Context.INTERNAL:
        hint = FIXED.get(setting.name, "It shows how the server was built or initialised.")
        problem = f'parameter "{setting.name}" cannot be changed'
        return {"name": name, "value": value, "taken": False, "problem": problem, "hint": hint}
    return {**_row(setting), "value": value, "taken": True}
