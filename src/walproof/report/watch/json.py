"""One look at one server as a line of JSON, keys named as in the facts. Positions are LSNs."""

from __future__ import annotations

import json
from typing import Any

from walproof.analysis.replication import LagSplit
from walproof.analysis.watch.standbys import unpaired
from walproof.facts.codec import to_data
from walproof.report.replica import replica_data
from walproof.report.watch.view import ServerView
from walproof.units import Lsn


def watch_line(view: ServerView) -> str:
    """The line, with its end. Connection strings are not in it."""
    return json.dumps(watch_data(view), separators=(",", ":")) + "\n"


def watch_data(view: ServerView) -> dict[str, Any]:
    """The same as data. What is unknown or does not apply is null."""
    seen, look = view.seen, view.seen.look
    return {
        "server": view.name,
        "at": None if look is None else look.at,
        "version": None if look is None else look.version,
        "system_identifier": None if look is None else look.system_identifier,
        "is_in_recovery": None if look is None else look.is_in_recovery,
        "lsn": None if look is None or look.lsn is None else str(Lsn(look.lsn)),
        "seen_s": seen.seen_s,
        "no_answer": None if seen.no_answer is None else {
            "since": seen.no_answer.since, "reason": seen.no_answer.reason,
        },
        "wal_bytes_per_s": seen.wal_bytes_per_s,
        "stream": {
            "phase": view.stream.phase.value,
            "reason": view.stream.reason,
            "since": view.stream.since,
            "received_lsn": None if view.stream.received is None else str(Lsn(view.stream.received)),
            "received_bytes": view.stream.received_bytes,
        },
        "crash": None if view.clock is None else to_data(view.clock),
        "causes": None if view.causes is None else to_data(view.causes),
        "recovery_target_s": view.target_s,
        "disk": None if seen.disk is None else to_data(seen.disk),
        "archive": None if seen.archive is None else to_data(seen.archive),
        "checkpoint": None if seen.checkpoint is None else to_data(seen.checkpoint),
        "sizes": None if view.sizes is None else to_data(view.sizes),
        "slots": [] if look is None else [to_data(slot) for slot in look.slots],
        "standbys": _standbys(view),
        "logical": [to_data(state) for state in seen.logical],
        "subscriptions": [to_data(found) for found in look.subscriptions] if look is not None else [],
        "concerns": [to_data(concern) for concern in view.concerns],
        "events": [to_data(event) for event in seen.events],
        "lacks": list(seen.lacks),
        "notes": list(view.notes),
    }  # fmt: skip


def _standbys(view: ServerView) -> list[dict[str, Any]]:
    """The standbys; a pair watched on both sides has all that ``replica watch --json`` tells."""
    alone = unpaired(view.seen.standbys, view.windows, view.pairs)
    found = [_standby(state.name, state.split, "upstream") for state in alone]
    for (name, diagnosis), window in zip(view.pairs.items(), view.windows, strict=True):
        found.append(_standby(name, diagnosis.split, "both") | replica_data(window, diagnosis))
    return found


def _standby(name: str, split: LagSplit, seen_from: str) -> dict[str, Any]:
    return {
        "name": name,
        "seen_from": seen_from,
        "lag_bytes": split.lag_bytes,
        "lag_s": split.lag_s,
        "is_least": split.is_least,
        "pace": split.pace.value,
        "catch_up_s": split.catch_up_s,
        "stages": [to_data(stage) for stage in split.stages],
        "causes": [],
    }
