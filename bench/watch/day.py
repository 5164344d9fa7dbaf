"""A day of a watched server in minutes: kept with faults at random moments, and shown again at speed.

    PYTHONPATH=. python bench/watch/day.py [--hours 24] [--seed N] [--keep FILE]

Looks two seconds apart go through what ``walproof watch`` does with them (assessment, rules, history with its
thinning), on a clock that runs as fast as the machine: load that rises and falls, outages, restarts, clocks
that jump, an archiver that stops, a slot that nobody reads. Then ``walproof watch --replay FILE --speed``
shows it. Printed are the memory and the size of the history each hour; status 1 where memory grows, the
history passes its limit, or a fault is not in what is shown again.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from tests.watching import BEGAN, MB, SEGMENT, Server, clock, gone, slot
from walproof.advise.watch.concern import Thresholds
from walproof.advise.watch.concerns import Concerns
from walproof.analysis.watch.assessment import Assessor, Limits
from walproof.cli.watch_keep import watch_record
from walproof.facts.watch import NoAnswer, WatchLook
from walproof.facts.watch_recorder import HistoryLimits, HistoryRecorder
from walproof.report.watch.view import ServerView

EVERY_S = 2
ROOM = 400 * SEGMENT
LIMIT_BYTES = 64 << 20
GROWTH_BYTES = 30 << 20
FAULTS = ("outage", "restart", "clock", "archiver", "slot")
_LASTS_S = 120
"""Each fault: longer than the half minute to which records of a day are thinned."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the simulated day."""

    kind: str
    at_s: int

    def is_on(self, second: int) -> bool:
        """Whether the fault lasts at that second."""
        return self.at_s <= second < self.at_s + _LASTS_S


def main() -> None:
    """Make the day, show it, and judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, help="leave the history there")
    given = parser.parse_args()
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as folder:
        path = given.keep or Path(folder) / "day.sqlite"
        faults = _make(path, given.hours, random.Random(given.seed))
        _show(path, faults)


def _make(path: Path, hours: int, chance: random.Random) -> list[Fault]:
    # One in each part of the day, so that they do not hide each other.
    part_s = hours * 3600 // (4 * len(FAULTS))
    kinds = list(FAULTS) * 4
    chance.shuffle(kinds)
    faults = [
        Fault(kind, place * part_s + chance.randrange(60, part_s - 2 * _LASTS_S))
        for place, kind in enumerate(kinds)
    ]
    now = {"s": 0}
    limits = HistoryLimits(30 * 86400.0, LIMIT_BYTES)
    memory: list[int] = []
    with HistoryRecorder(
        path, limits, EVERY_S, "day", clock=lambda: BEGAN + now["s"], monotonic=lambda: float(now["s"])
    ) as recorder:
        assessor, rules = Assessor("day", Limits(ROOM), EVERY_S), Concerns(Thresholds(recovery_s=60.0))
        for second, seen in _day(hours, faults):
            now["s"] = second
            assessor.see([seen])
            assessed = assessor.assess(float(second), BEGAN + second)
            crash = None if isinstance(seen, NoAnswer) else clock(20 + 15 * math.sin(second / 900))
            said = rules.of(assessed, crash, None, {}, BEGAN + second)
            view = ServerView(assessed, said, clock=crash, target_s=60.0, room_bytes=ROOM)
            recorder.add([("day", watch_record(view, BEGAN + second, recorder.session))])
            if recorder.problem is not None:
                raise SystemExit(recorder.problem)
            if second % 3600 == 0:
                memory.append(psutil.Process().memory_info().rss)
                print(f"hour {second // 3600}: {memory[-1] / 1e6:.0f} MB of memory, history of "
                      f"{path.stat().st_size / 1e6:.1f} MB", flush=True)  # fmt: skip
    _check(memory, "while it was kept")
    if path.stat().st_size > LIMIT_BYTES:
        raise SystemExit(f"the history has {path.stat().st_size} bytes, more than its limit")
    return faults


def _day(hours: int, faults: list[Fault]) -> Iterator[tuple[int, WatchLook | NoAnswer]]:
    """Yield (second of the observer's clock, sighting)."""
    started_at, jump_s, base, before = BEGAN - 3600, 0, 0, 0
    for second in range(0, hours * 3600, EVERY_S):
        on = {fault.kind for fault in faults if fault.is_on(second)}
        began = {fault.kind for fault in faults if fault.at_s <= second < fault.at_s + EVERY_S}
        if "restart" in began:
            started_at = BEGAN + second + jump_s
        if "clock" in began:
            jump_s += 7200 if jump_s == 0 else -7200
        if "outage" in on:
            yield second, gone(BEGAN + second, float(second))
            continue
        base += int((1.5 + math.sin(second / 7200)) * MB) * (second - before)
        before = second
        server = Server(
            archived_share=1.0, is_failing="archiver" in on,
            slots=[slot("etl", restart=0)] if "slot" in on else (),
        )  # fmt: skip
        look = server.look(0)
        moved = 1000 * SEGMENT + base
        assert look.archiver is not None
        assert look.checkpoint is not None
        archiver = replace(
            look.archiver, archived=moved // SEGMENT, ready=5 if "archiver" in on else 0,
            failed_at=BEGAN + second if "archiver" in on else None, last_at=BEGAN + second - 1,
        )  # fmt: skip
        slots = tuple(replace(slot, restart=moved - 300 * MB) for slot in look.slots)
        yield second, replace(
            look, seen_s=float(second), at=BEGAN + second + jump_s, lsn=moved, started_at=started_at,
            archiver=archiver, slots=slots,
            checkpoint=replace(look.checkpoint, redo=moved - 100 * MB, at=BEGAN + second + jump_s - 30),
            standbys=(),
        )  # fmt: skip


def _show(path: Path, faults: list[Fault]) -> None:
    command = [
        sys.executable,
        "-m",
        "walproof",
        "watch",
        "--replay",
        str(path),
        "--speed",
        "100000x",
        "--json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    memory, shown, lines, begun_s = [], set(), 0, time.monotonic()
    for line in process.stdout:
        lines += 1
        data = json.loads(line)
        shown |= {item["key"] for item in data["concerns"]} | {item["text"] for item in data["events"]}
        if lines % 200 == 0:
            memory.append(psutil.Process(process.pid).memory_info().rss)
    if process.wait() != 0:
        raise SystemExit(f"the replay ended with {process.returncode}")
    print(f"shown again: {lines} looks in {time.monotonic() - begun_s:.0f} s")
    _check(memory, "while it was shown")
    said = {
        "outage": "server", "restart": "the server was started again", "archiver": "archiver",
        "slot": "slot etl",
    }  # fmt: skip
    missing = {kind for kind in {fault.kind for fault in faults} & said.keys() if said[kind] not in shown}
    if missing:
        raise SystemExit(f"not shown again: {', '.join(sorted(missing))}")
    print("every kind of fault is in it")


def _check(memory: list[int], when: str) -> None:
    """From the first quarter on it stays."""
    quarter = memory[: max(1, len(memory) // 4)]
    if memory and max(memory) > max(quarter) + GROWTH_BYTES:
        raise SystemExit(f"memory grew {when}: from {max(quarter) / 1e6:.0f} to {max(memory) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
