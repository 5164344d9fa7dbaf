"""Converts stores of the previous format: what their plans say is kept, in today's form.

Format 1 told the kind of a study by which of six fields of a plan were present, and gave every variant the
conditions of all kinds.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from walproof.errors import StoreError
from walproof.facts.codec import from_json, plan_hash, to_json
from walproof.facts.place import find_place, open_engine, require_there
from walproof.facts.plan import PLAN_FORMAT, Plan
from walproof.facts.tables import (
    FORMAT,
    RUN,
    STORE_FORMAT,
    in_one_transaction,
)
from walproof.files import make_private, sync_folder

_KEPT_TABLE = "walproof_run_format_1"
_OF_STANDBYS = ("distance_s", "bandwidth_bytes_per_s")


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What became of a store."""

    store: str
    """Its name, without a password."""
    runs: int
    """Runs whose plans have another form now; 0 for a store that had today's."""
    kept: str | None
    """Where the old store is kept: a file, or a table of the same database."""


def upgrade_store(url: str | Path) -> Upgrade:
    """Bring a store to today's format, in one transaction.

    Raises StoreError; then nothing has changed.
    """
    place = find_place(url)
    require_there(place)
    where, engine = place.shown, open_engine(place)
    try:
        with place.guarded("upgraded"):
            stored = _format_of(engine, where)
            if stored == STORE_FORMAT:
                return Upgrade(where, 0, None)
            kept = _copy(engine, place.path)
            with in_one_transaction(engine) as connection:
                # Another process may have been quicker.
                if connection.scalar(sa.select(FORMAT.c.format)) == STORE_FORMAT:
                    return Upgrade(where, 0, kept)
                if kept is None:
                    connection.exec_driver_sql(
                        f"CREATE TABLE {_KEPT_TABLE} AS SELECT id, plan_hash, plan FROM {RUN.name}"
                    )
                runs = connection.execute(sa.select(RUN.c.id, RUN.c.plan)).all()
                for run in runs:
                    plan = from_json(Plan, upgraded_plan(run.plan))
                    connection.execute(
                        RUN.update()
                        .where(RUN.c.id == run.id)
                        .values(plan=to_json(plan), plan_hash=plan_hash(plan))
                    )
                connection.execute(FORMAT.update().values(format=STORE_FORMAT))
            return Upgrade(where, len(runs), kept or f"table {_KEPT_TABLE}")
    finally:
        engine.dispose()


def upgraded_plan(text: str) -> str:
    """JSON of a plan of format 1 in the form of today."""
    plan: dict[str, Any] = json.loads(text)
    plan["kind"] = _kind(plan)
    plan["variants"] = [_variant(variant, plan["kind"]) for variant in plan["variants"]]
    for name in ("power_cut", "replay", "streaming", "failover", "crash", "load"):
        plan.pop(name, None)
    plan["format"] = PLAN_FORMAT
    return json.dumps(plan)


def _kind(plan: Mapping[str, Any]) -> dict[str, Any]:
    for field, name in (
        ("replay", "replay"), ("streaming", "streaming"), ("failover", "failover"), ("load", "loading"),
    ):  # fmt: skip
        if plan.get(field) is not None:
            return {"name": name, **plan[field]}
    cut, crash = plan.get("power_cut"), plan.get("crash")
    if cut is not None and cut["only"]:
        return {"name": "power cuts", "images": cut["images"]}
    if any(workload.get("statements") for workload in plan["workloads"]):
        return {"name": "statements"}
    added = None
    if cut is not None:
        added = {"name": "power cut", "images": cut["images"]}
    elif crash is not None:
        added = {"name": "crash", **crash}
    return {"name": "throughput", "added": added}


def _variant(variant: Mapping[str, Any], kind: Mapping[str, Any]) -> dict[str, Any]:
    """The variant with the conditions of its plan's kind alone."""
    found: dict[str, Any] | None = None
    match kind["name"]:
        case "replay":
            found = {"name": "replay", **variant.get("replay", {})}
        case "streaming":
            found = {
                "name": "streaming",
                "checksums": variant.get("replay", {}).get("checksums", False),
                **_picked(variant, *_OF_STANDBYS, "replay_cpu_share"),
            }
        case "failover":
            found = {"name": "failover", **_picked(variant, *_OF_STANDBYS, "standby_device")}
        case "loading":
            found = {"name": "loading", **variant.get("load", {})}
        case "power cuts":
            found = {"name": "power cut", **variant.get("cut", {})}
        case "throughput" if (kind["added"] or {}).get("name") == "power cut":
            found = {"name": "power cut", **variant.get("cut", {})}
    gone = {"cut", "replay", "load", "standby_device", "replay_cpu_share", *_OF_STANDBYS}
    return {**{name: value for name, value in variant.items() if name not in gone}, "conditions": found}


def _picked(variant: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: variant[name] for name in names if name in variant}


def _format_of(engine: sa.Engine, where: str) -> int:
    if not sa.inspect(engine).has_table(FORMAT.name):
        raise StoreError(f"{where} is not a store of walproof", hint="--out or --store names it.")
    with engine.connect() as connection:
        stored = connection.scalar(sa.select(FORMAT.c.format))
    if stored not in (STORE_FORMAT - 1, STORE_FORMAT):
        raise StoreError(
            f"store {where} has format {stored}, expected {STORE_FORMAT - 1} or {STORE_FORMAT}",
            hint="It was written by a newer version of walproof; name another store.",
        )
    return int(stored)


def _copy(engine: sa.Engine, path: Path | None) -> str | None:
    """The file that an SQLite store is copied to, whole; None where the database keeps the old plans."""
    if path is None:
        return None
    kept = path.with_name(f"{path.name}.format-{STORE_FORMAT - 1}")
    _refuse_another(kept)
    unfinished = path.with_name(f".{kept.name}.{secrets.token_hex(4)}.new")
    try:
        # SQLite accepts a file that is there and empty.
        make_private(unfinished)
        with engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(
                sa.text("VACUUM INTO :kept"), {"kept": str(unfinished)}
            )
        # SQLite leaves that to the system (manual, "VACUUM INTO"); the change that follows is on the disk at
        # once.
        with unfinished.open("rb") as copy:
            os.fsync(copy.fileno())
        _refuse_another(kept)
        unfinished.rename(kept)
        sync_folder(kept.parent)
    except OSError as error:
        raise StoreError(f'the store could not be copied to "{kept}": {error.strerror}') from error
    finally:
        unfinished.unlink(missing_ok=True)
    return str(kept)


def _refuse_another(kept: Path) -> None:
    if kept.exists():
        raise StoreError(
            f'file "{kept}" exists',
            detail="The store is copied there before it is changed.",
            hint="Move it away; it is the copy of an earlier or interrupted upgrade.",
        )
