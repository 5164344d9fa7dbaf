"""Which variants get servers that take turns, with what reason, and what a stopped load cannot do."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from walproof.cli.plan import plan_text
from walproof.errors import StudyError
from walproof.facts import Cell, Design, Install, Placing, Plan
from walproof.lab.asked import Overrides
from walproof.lab.preflight import estimate
from walproof.lab.reading import check_study
from walproof.lab.sizes import SCALE_BYTES
from walproof.lab.study import ad_hoc, read_study, resolve
from walproof.lab.studyfile import ScriptTable
from walproof.settings import designs as table
from walproof.settings.designs import designs

ROOT = Path(__file__).parents[2]
OFF = {"synchronous_commit": "off"}
BUFFERS = {"wal_buffers": "64MB"}
LARGE = {"max_wal_size": "4GB"}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every row of the table had been shown on servers."""
    rows = {name: replace(row, shown="a run") for name, row in designs().items()}
    monkeypatch.setattr(table, "designs", lambda: rows)


def _compare(installs: tuple[Install, ...], *sets: dict[str, str], **overrides: Any) -> Plan:
    workload = {"name": "w", "clients": 4, "duration": 10, **overrides.pop("workload", {})}
    study = ad_hoc(sets, workload, overrides.pop("scripts", ()))
    return resolve(study, Overrides(**overrides), folder=Path("/somewhere"), given=installs)


def test_a_setting_is_not_sliced_by_itself_before_that_was_shown(embedded: Install, monkeypatch: Any) -> None:
    rows = {name: replace(row, shown="") for name, row in designs().items()}
    monkeypatch.setattr(table, "designs", lambda: rows)
    plan = _compare((embedded,), BUFFERS)
    assert {variant.design for variant in plan.variants} == {Design.FRESH}
    assert plan.variant("wal_buffers=64MB").design_reason == (
        "nobody has shown on servers yet that slices of wal_buffers agree with separate servers"
    )
    asked = _compare((embedded,), BUFFERS, design="sliced")
    assert {variant.design for variant in asked.variants} == {Design.SLICED}
    assert asked.variant("wal_buffers=64MB").design_reason == (
        "wal_buffers acts under load alone, on servers that take turns"
    )


@pytest.mark.usefixtures("shown")
def test_a_setting_that_acts_under_load_alone_is_sliced_by_itself(embedded: Install) -> None:
    plan = _compare((embedded,), BUFFERS)
    assert [variant.design for variant in plan.variants] == [Design.SLICED, Design.SLICED]
    assert plan.slicing is not None
    assert (plan.slicing.baseline, plan.slicing.starts, plan.slicing.passes) == ("default", 8, 8)
    assert (plan.rounds, plan.trials_most, plan.probes) == (8, 8, ())
    assert plan.variant("wal_buffers=64MB").design_reason == (
        "wal_buffers acts under load alone, on servers that take turns"
    )
    text = plan_text(plan, ["walproof", "compare"])
    assert "design sliced: wal_buffers acts under load alone" in text
    assert "sliced, on 2 servers that take turns: 8 starts of 8 passes of 2 slices of 300 ms" in text


@pytest.mark.usefixtures("shown")
def test_three_designs_have_a_baseline_each(embedded: Install) -> None:
    plan = _compare((embedded,), OFF, BUFFERS, LARGE)
    assert [(variant.name, variant.design.value) for variant in plan.variants] == [
        ("default", "fresh"),
        ("default, toggled", "toggled"),
        ("default, sliced", "sliced"),
        ("synchronous_commit=off", "toggled"),
        ("wal_buffers=64MB", "sliced"),
        ("max_wal_size=4GB", "fresh"),
    ]
    assert plan.baseline_of("wal_buffers=64MB") == "default, sliced"
    for names in (("default, toggled", "synchronous_commit=off"), ("default, sliced", "wal_buffers=64MB")):
        sharing = {name: Cell(embedded.label, "w", name) for name in names}
        assert plan.shared_cells(sharing[names[0]]) == sharing
        assert plan.shared_cells(sharing[names[1]]) == {}
    assert plan.shared_cells(Cell(embedded.label, "w", "default")) == {}
    cells = plan.round_cells(3)
    assert Cell(embedded.label, "w", "default, sliced") in cells
    assert len(cells) == 3, "the toggled server has two starts"
    assert plan.trials_most == 5 * 3 + 2


@pytest.mark.usefixtures("shown")
def test_two_designs_of_slices_have_no_windows(embedded: Install) -> None:
    plan = _compare((embedded,), OFF, BUFFERS)
    assert [variant.name for variant in plan.variants][:2] == ["default", "default, sliced"]
    assert plan.slices_all
    assert not plan.toggles_all
    assert (plan.rounds, plan.trials_most) == (8, 8 + 2)


def test_sliced_is_possible_for_what_is_toggled_or_that_nobody_has_looked_at(embedded: Install) -> None:
    plan = _compare((embedded,), OFF, {"work_mem": "1MB"}, design="sliced", rounds=3, passes=5)
    assert {variant.design for variant in plan.variants} == {Design.SLICED}
    assert plan.variant("work_mem=1MB").design_reason == "asked for"
    assert plan.slicing is not None
    assert (plan.slicing.starts, plan.slicing.passes) == (3, 5)


@pytest.mark.parametrize(
    ("sets", "given", "reason"),
    [
        (LARGE, {}, "max_wal_size=4GB: max_wal_size acts at checkpoints"),
        (BUFFERS, {"workload": {"rate": 100.0}}, "an offered rate goes on while a load is stopped"),
        (
            BUFFERS,
            {"scripts": [ScriptTable(sql="SELECT 1;\n  \\sleep 5 ms\n")]},
            "\\sleep goes on while a load is stopped",
        ),
    ],
)
def test_what_a_stopped_load_cannot_do_is_refused_with_the_reason(
    embedded: Install, sets: dict[str, str], given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(StudyError) as caught:
        _compare((embedded,), sets, **given, design="sliced")
    assert caught.value.message == (
        "the study's settings cannot be measured in slices of servers that take turns"
    )
    assert (caught.value.detail or "").startswith(reason)
    plan = _compare((embedded,), sets, **given)
    assert plan.slicing is None


@pytest.mark.usefixtures("shown")
def test_servers_that_do_not_fit_are_up_one_after_the_other(embedded: Install) -> None:
    most = psutil.virtual_memory().total
    plan = _compare((embedded,), {"shared_buffers": f"{most // (1 << 20)}MB"}, BUFFERS)
    assert plan.slicing is None
    reason = plan.variant("wal_buffers=64MB").design_reason or ""
    assert reason.startswith("3 servers at once need ")
    few = _compare((embedded,), BUFFERS, {"shared_buffers": "256MB"})
    single = _compare((embedded,), {"shared_buffers": "256MB"}, design="fresh")
    both = estimate(few, Path("/nowhere")).memory_bytes
    assert both == estimate(single, Path("/nowhere")).memory_bytes + 2 * ((128 + 4 * 8) << 20)


@pytest.mark.usefixtures("shown")
def test_servers_whose_tables_the_kernel_cannot_cache_at_once_are_up_one_after_the_other(
    embedded: Install,
) -> None:
    half = psutil.virtual_memory().total // 2 // SCALE_BYTES
    plan = _compare((embedded,), BUFFERS, workload={"scale": half})
    assert plan.slicing is None
    reason = plan.variant("wal_buffers=64MB").design_reason or ""
    assert reason.startswith("2 servers at once need ")
    assert reason.endswith(" to cache tables")
    assert _compare((embedded,), BUFFERS, workload={"scale": half // 2}).slicing is not None


def test_what_acts_at_checkpoints_may_come_along_and_the_reason_says_that_it_is_not_seen(
    embedded: Install,
) -> None:
    both = {**BUFFERS, **LARGE, "checkpoint_timeout": "1h"}
    plan = _compare((embedded,), both, design="sliced")
    (variant,) = (variant for variant in plan.variants if variant.name != "default")
    assert variant.design_reason == (
        "asked for; checkpoint_timeout and max_wal_size act at checkpoints, and no slice shows anything of "
        "that"
    )
    by_itself = _compare((embedded,), both)
    assert {variant.design for variant in by_itself.variants} == {Design.FRESH}


def _quick(embedded: Install, table: dict[str, Any], settings: dict[str, str], **overrides: Any) -> Plan:
    study = {
        "name": "mine", "title": "?", "quick": table,
        "variant": [{"name": "default"}, {"name": "other", "settings": settings}],
        "workload": [{"name": "w", "clients": 4, "duration": "60s"}],
    }  # fmt: skip
    overrides = {"quick": True, **overrides}
    return resolve(check_study(study, "t"), Overrides(**overrides), folder=Path("/x"), given=(embedded,))


def test_the_quick_form_has_a_design_of_its_own(embedded: Install) -> None:
    quick = {"design": "sliced", "rounds": 5, "passes": 7, "slice": "0.15s"}
    plan = _quick(embedded, quick, BUFFERS)
    assert {variant.design for variant in plan.variants} == {Design.SLICED}
    assert plan.slicing is not None
    assert (plan.slicing.starts, plan.slicing.passes, plan.slicing.slice_s) == (5, 7, 0.15)
    assert _quick(embedded, quick, BUFFERS, quick=False).slicing is None
    assert _quick(embedded, quick, BUFFERS, design="fresh").slicing is None
    typed = _quick(embedded, quick, BUFFERS, rounds=2, passes=3)
    assert typed.slicing is not None
    assert (typed.slicing.starts, typed.slicing.passes) == (2, 3)


@pytest.mark.parametrize(
    ("settings", "given", "reason"),
    [
        (LARGE, {}, "max_wal_size acts at checkpoints"),
        (BUFFERS, {"probes": ("waits",)}, "probe waits needs a window of its own"),
        ({"shared_buffers": f"{psutil.virtual_memory().total >> 20}MB"}, {}, "2 servers at once need "),
        ({"SHARED_BUFFERS": f"{psutil.virtual_memory().total >> 20}MB"}, {}, "2 servers at once need "),
    ],
)
def test_where_its_design_cannot_be_the_quick_form_has_windows(
    embedded: Install, settings: dict[str, str], given: dict[str, Any], reason: str
) -> None:
    plan = _quick(embedded, {"design": "sliced", "rounds": 3, "duration": "3s"}, settings, **given)
    assert {variant.design for variant in plan.variants} == {Design.FRESH}
    assert (plan.variant("other").design_reason or "").startswith(reason)
    (note,) = plan.notes
    assert note.startswith(f"This quick form has windows and no slices, so intervals are wider: {reason}")
    assert (plan.rounds, plan.workloads[0].duration_s) == (3, 3.0)


def test_the_durability_study_is_sliced_in_its_quick_form(embedded: Install) -> None:
    study, _, scripts = read_study("durability")
    plan = resolve(study, Overrides(quick=True), folder=Path("/x"), scripts=scripts, given=(embedded,))
    assert {variant.design for variant in plan.variants} == {Design.SLICED}
    whole = resolve(study, Overrides(), folder=Path("/x"), scripts=scripts, given=(embedded,))
    assert {variant.design for variant in whole.variants} == {Design.FRESH}
    needs = estimate(plan, Path("/nowhere"))
    assert needs.disk_bytes < 20 << 30, "servers that take turns write little WAL"


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_pages_say_what_the_first_study_takes(
    embedded: Install, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    """Below that it has windows, and says so."""
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    found = re.search(r"(\d+) GB of free disk.{1,40}?(\d+) GB of memory", text)
    assert found is not None
    disk_bytes, memory_bytes = (int(number) << 30 for number in found.groups())

    def planned(total: int) -> Plan:
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=total))
        study, _, scripts = read_study("durability")
        return resolve(study, Overrides(quick=True), folder=Path("/x"), scripts=scripts, given=(embedded,))

    enough, less = planned(memory_bytes), planned(memory_bytes - (1 << 30))
    assert (enough.slices_all, enough.notes) == (True, ())
    assert disk_bytes - (1 << 30) < estimate(enough, Path("/nowhere")).disk_bytes <= disk_bytes
    assert {variant.design for variant in less.variants} == {Design.FRESH}
    assert "7 servers at once need " in less.notes[0]
    assert less.trials_most > 0


def _steady(embedded: Install, **changes: Any) -> Plan:
    workload = {"name": "w", "duration": 5, **changes.pop("workload", {})}
    study = {
        "name": "mine", "title": "?", "variant": [{"name": "default"}, {"name": "off", "settings": OFF}],
        "workload": [{key: value for key, value in workload.items() if value is not None}],
        "design": {"place": "steady", "settle": "20s", **changes},
    }  # fmt: skip
    return resolve(check_study(study, "t"), Overrides(), folder=Path("/x"), given=(embedded,))


def test_a_steady_place_is_so_much_load_after_the_checkpoint(embedded: Install) -> None:
    plan = _steady(embedded)
    assert plan.place is Placing.STEADY
    assert plan.workloads[0].warmup_s == 20.0
    assert _steady(embedded, workload={"warmup": 30}).workloads[0].warmup_s == 30.0
    assert _steady(embedded, design="auto").toggles_all


def test_the_command_line_says_that_the_place_is_steady(embedded: Install) -> None:
    plan = _compare((embedded,), OFF, settle_s=45.0, design="fresh")
    assert plan.place is Placing.STEADY
    assert plan.workloads[0].warmup_s == 45.0
    assert _compare((embedded,), OFF, design="fresh").place is Placing.AFTER_CHECKPOINT
    with pytest.raises(StudyError) as caught:
        _compare((embedded,), OFF, settle_s=0.0)
    assert caught.value.detail == "the load before windows and slices has no length"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"checkpoint": "none"}, "it is a place after the checkpoint before the load"),
        ({"workload": {"duration": None, "transactions": 10}}, "a number of transactions has no warm-up"),
    ],
)
def test_a_place_that_cannot_be_steady_is_refused(
    embedded: Install, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(StudyError) as caught:
        _steady(embedded, **changes)
    assert (caught.value.detail or "").startswith(reason)
