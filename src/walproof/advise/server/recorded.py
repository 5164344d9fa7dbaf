"""A server of which there is only a recording: its settings, and no look at it."""

from __future__ import annotations

from walproof.errors import SettingError
from walproof.facts.server import ServerSetting, ServerWindow
from walproof.settings.catalogue import Catalogue
from walproof.settings.value import parse
from walproof.wal.recording import Recording


def window_of(recording: Recording) -> ServerWindow:
    """The window of a recording that holds WAL and the settings that shape it, and nothing else."""
    catalogue = Catalogue.for_version(recording.version_num)
    settings = {name: _setting(catalogue, name, value) for name, value in recording.settings.items()}
    return ServerWindow(
        version=recording.settings.get("server_version", str(recording.version_num // 10000)).split()[0],
        version_num=recording.version_num,
        system_identifier=str(recording.system_identifier),
        database="",
        is_in_recovery=False,
        settings=settings,
        looks=(),
        started_at=None,
        reset_at=None,
        lacks=("everything but WAL and a few settings: it is a recording",),
        recorded_s=max(0.0, recording.ended.at - recording.began.at),
    )


def _setting(catalogue: Catalogue, name: str, value: str) -> ServerSetting:
    try:
        setting = catalogue.get(name)
        parsed = parse(setting, value)
    except SettingError:
        return ServerSetting(value, None, None, "unknown", "unknown", is_pending=False)
    base = (
        None
        if isinstance(parsed, bool | str)
        else f"{parsed:g}"
        if isinstance(parsed, float)
        else str(parsed)
    )
    return ServerSetting(value, None, base, "unknown", setting.context.value, is_pending=False)
