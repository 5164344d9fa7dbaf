"""Tests the simulator: four cuts whose outcome is known, before every campaign.

    everything kept, fsync=off                as after kill -9: nothing may be lost
    nothing kept, fsync=off                   every image must be caught
    a torn page, full_page_writes=off         must be caught, unless redo makes the page anew
    full durability                           nothing may be lost, and nothing damaged

A simulator that fails one of them proves nothing about a setting, in either direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from walproof.disk.image import Survival
from walproof.disk.simulated import CutEvent
from walproof.errors import DiskError
from walproof.facts import CheckedImage, CutConditions
from walproof.lab.power_cut.cut import CutLab, CutOrder, cut_power

_SETTINGS = {
    "shared_buffers": "8MB",
    "bgwriter_delay": "10ms",
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
}
_ATTEMPTS = 8
"""How many cuts in the middle of a page are tried: redo does not read a page that was new, and so heals
it."""
_KEPT = Survival("everything", unit_bytes=512)
_MIXED = Survival("random", 0.5, 512)


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    settings: Mapping[str, str]
    moment: tuple[CutEvent, int]
    survivals: tuple[Survival, ...]
    is_caught: bool
    """Whether every image has to fail; otherwise none may."""
    needs_torn_page: bool = False


_CASES = (
    _Case(
        "everything kept, fsync=off", {"fsync": "off"}, (CutEvent.WAL_WRITE, 1500), (_KEPT,), is_caught=False
    ),
    _Case("fsync=off", {"fsync": "off"}, (CutEvent.WAL_WRITE, 1500), (_MIXED, _MIXED), is_caught=True),
    _Case(
        "torn page, full_page_writes=off",
        {"full_page_writes": "off"},
        (CutEvent.TORN_PAGE, 700),
        (_KEPT, _MIXED, _MIXED),
        is_caught=True,
        needs_torn_page=True,
    ),
    _Case("full durability", {}, (CutEvent.TORN_PAGE, 700), (_KEPT, _MIXED, _MIXED), is_caught=False),
)


def run_self_test(lab: CutLab) -> str:
    """Run it; return what was found, in one line. Raises DiskError when a case has the wrong outcome."""
    said = []
    for number, case in enumerate(_CASES):
        images = _images(lab, case, number)
        caught = [image for image in images if not image.state.is_sound]
        expected = len(images) if case.is_caught else 0
        if len(caught) != expected:
            shown = (caught or images)[0]
            raise DiskError(
                f"the self-test of the power cuts failed: {case.name}",
                detail=f"expected {expected} of {len(images)} images to fail, got {len(caught)}"
                + (f" ({shown.state.value}: {shown.reason})" if shown.reason else ""),
                hint="No verdict about a setting can be trusted now; please report it with this output.",
            )
        said.append(f"{case.name}: {len(caught)} of {len(images)} images caught")
    return "; ".join(said)


def _images(lab: CutLab, case: _Case, number: int) -> tuple[CheckedImage, ...]:
    for attempt in range(_ATTEMPTS):
        event, count = case.moment
        cut = cut_power(
            lab,
            CutOrder(
                seed=1000 * number + attempt,
                settings={**_SETTINGS, **case.settings},
                # Nothing is written by itself: a slow machine must not turn one case into another.
                conditions=CutConditions(unit_bytes=512, writeback_s=None),
                images=len(case.survivals),
                survivals=case.survivals,
                moment=(event, count + 37 * attempt),
            ),
        )
        if not case.needs_torn_page:
            return cut.images
        torn = tuple(image for image in cut.images if image.torn_pages and not image.state.is_sound)
        if torn:
            return torn
    raise DiskError(
        f"the self-test of the power cuts failed: {case.name}",
        detail=f"none of {_ATTEMPTS} cuts in the middle of a page's write was caught",
        hint="No verdict about a setting can be trusted now; please report it with this output.",
    )
