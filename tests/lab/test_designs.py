"""Which variants are toggled on one server: by what they differ in, with the reason, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from walproof.cli.plan import (
    plan_text,
    say_notes,
    say_unused_duration,
    say_unused_passes,
    without_cycles,
)
from walproof.errors import StudyError
from walproof.facts import Cell, Design, Install, Plan
from walproof.lab.asked import Overrides
from walproof.lab.preflight import estimate
from walproof.lab.reading import check_study
from walproof.lab.study import ad_hoc, resolve

OFF = {"synchronous_commit": "off"}
COMPRESSED = {"wal_compression": "on"}
LARGE = {"max_wal_size": "4GB"}


def _compare(installs: tuple[Install, ...], *sets: dict[str, str], **overrides: Any) -> Plan:
    study = ad_hoc(sets, {"name": "w", "clients": 4, "duration": 10, **overrides.pop("workload", {})})
    return resolve(study, Overrides(**overrides), folder=Path("/somewhere"), given=installs)


def test_what_a_reload_changes_is_toggled_by_itself(embedded: Install) -> None:
    plan = _compare((embedded,), OFF, COMPRESSED)
    assert plan.toggles_all
    assert plan.toggling is not None
    assert (plan.toggling.baseline, plan.toggling.starts, plan.toggling.passes) == ("default", 2, 25)
    assert plan.rounds == 2
    assert plan.trials_most == 2
    reason = "a reload changes {}, and nothing is left behind"
    assert plan.variant("synchronous_commit=off").design_reason == reason.format("synchronous_commit")
    assert plan.variant("wal_compression=on").design_reason == (
        reason.format("wal_compression") + "; not yet shown to agree with servers of its own"
    )
    needs = estimate(plan, Path("/nowhere"))
    assert needs.length is not None
    assert needs.length.window_s == pytest.approx(2 * 25 * 3 * 0.705)
    assert needs.length.window_s < 120, "the answer takes less than two minutes"


def test_each_design_brings_its_own_baseline(embedded: Install) -> None:
    plan = _compare((embedded,), OFF, LARGE, {**COMPRESSED, **LARGE})
    assert [(variant.name, variant.design) for variant in plan.variants] == [
        ("default", Design.FRESH),
        ("default, toggled", Design.TOGGLED),
        ("synchronous_commit=off", Design.TOGGLED),
        ("max_wal_size=4GB", Design.FRESH),
        ("wal_compression=on, max_wal_size=4GB", Design.FRESH),
    ]
    assert plan.baseline_of("synchronous_commit=off") == "default, toggled"
    assert plan.baseline_of("max_wal_size=4GB") == "default"
    assert plan.variant("max_wal_size=4GB").design_reason == "max_wal_size acts at checkpoints"
    label, rounds = embedded.label, [plan.round_cells(number) for number in (1, 2, 3)]
    assert plan.rounds == 5
    assert Cell(label, "w", "default, toggled") in rounds[1]
    assert Cell(label, "w", "synchronous_commit=off") not in rounds[1], "it is in its baseline's start"
    assert [len(cells) for cells in rounds] == [4, 4, 3], "there are two starts"
    assert plan.trials_most == 5 * 3 + 2


def test_a_dry_run_says_which_design_and_why(embedded: Install) -> None:
    text = plan_text(_compare((embedded,), OFF, LARGE), ["walproof", "compare"])
    assert "design toggled: a reload changes synchronous_commit, and nothing is left behind" in text
    assert "design fresh: max_wal_size acts at checkpoints" in text
    assert "toggled on one server: 2 starts of 25 passes of 2 slices of 600 ms, about 35.2 s a start" in text
    whole = plan_text(_compare((embedded,), OFF), ["walproof", "compare"])
    assert "4 clients, 1 thread, simple protocol, without a pause" in whole
    assert "probes: none (slices have throughput, latency, WAL bytes and CPU)" in whole


def test_a_dry_run_is_no_longer_than_its_budget(embedded: Install) -> None:
    plan = replace(_compare((embedded,), OFF, within=0.03), budget_s=300.0)
    text = plan_text(plan, ["walproof", "compare"])
    assert "50 at most, none that would end after 5 min 00 s" in text
    assert re.search(r"length: at most 5 min 00 s \(budget\), after what is prepared: about \d+ rounds", text)
    assert "length: one round, about" in plan_text(replace(plan, budget_s=5.0), ["walproof", "compare"])
    assert "(budget)" not in plan_text(replace(plan, budget_s=86400.0), ["walproof", "compare"])


def test_a_duration_that_does_nothing_is_said(embedded: Install, capsys: pytest.CaptureFixture[str]) -> None:
    said = "--duration has no effect in a toggled design (slices of 600 ms)"
    say_unused_duration(_compare((embedded,), OFF))
    assert capsys.readouterr().err.startswith(f"{said}: --passes has more slices, --design fresh")
    say_unused_duration(_compare((embedded,), OFF, LARGE))
    assert capsys.readouterr().err.startswith(f"{said}, but on variants with servers of their own")
    say_unused_duration(_compare((embedded,), LARGE))
    assert capsys.readouterr().err == ""


def test_passes_that_do_nothing_are_said(embedded: Install, capsys: pytest.CaptureFixture[str]) -> None:
    say_unused_passes(_compare((embedded,), LARGE, passes=6))
    assert capsys.readouterr().err.startswith("--passes has no effect: no variant is measured in slices")
    say_unused_passes(_compare((embedded,), OFF, passes=6))
    assert capsys.readouterr().err == ""


def test_rounds_that_are_typed_are_starts(embedded: Install) -> None:
    assert _compare((embedded,), OFF, rounds=4).trials_most == 4
    plan = _compare((embedded,), OFF, within=0.03)
    assert plan.toggling is not None
    assert plan.toggling.starts == plan.rounds == 50
    few = _compare((embedded,), OFF, passes=6).toggling
    assert few is not None
    assert few.passes == 6


def test_the_baseline_under_another_name_is_toggled(embedded: Install) -> None:
    """An A/A study: a variant that differs in nothing."""
    study = check_study(
        {
            "name": "same", "title": "?", "workload": [{"name": "w", "duration": 5}],
            "design": {"design": "auto"}, "variant": [{"name": "default"}, {"name": "same"}],
        },
        "test",
    )  # fmt: skip
    plan = resolve(study, Overrides(), folder=Path("/somewhere"), given=(embedded,))
    assert plan.toggles_all
    assert plan.variant("same").design_reason == "it does not differ from the baseline"


def test_a_study_file_has_servers_for_each_trial_unless_it_says_otherwise(embedded: Install) -> None:
    study = {
        "name": "mine", "title": "?", "workload": [{"name": "w", "duration": 5}],
        "variant": [{"name": "default"}, {"name": "off", "settings": OFF}],
    }  # fmt: skip
    plan = resolve(check_study(study, "t"), Overrides(), folder=Path("/somewhere"), given=(embedded,))
    assert plan.toggling is None
    plan = resolve(
        check_study(study, "t"), Overrides(design="auto"), folder=Path("/somewhere"), given=(embedded,)
    )
    assert plan.toggles_all


def test_fresh_is_always_possible(embedded: Install) -> None:
    plan = _compare((embedded,), OFF, design="fresh")
    assert plan.toggling is None
    assert plan.rounds == 5
    assert {variant.design for variant in plan.variants} == {Design.FRESH}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"power_cut_images": 2}, "a crash or a power cut after each trial needs a server for each"),
        ({"probes": ("waits",)}, "probe waits needs a window of its own"),
        ({"workload": {"transactions": 100, "duration": None}}, "a number of transactions"),
    ],
)
def test_what_a_study_has_may_need_a_server_for_each_trial(
    embedded: Install, changes: dict[str, Any], reason: str
) -> None:
    workload = {key: value for key, value in changes.get("workload", {}).items() if value is not None}
    study = ad_hoc([OFF], {"name": "w", **({"duration": 10} if "transactions" not in workload else workload)})
    overrides = {key: value for key, value in changes.items() if key != "workload"}
    plan = resolve(study, Overrides(**overrides), folder=Path("/somewhere"), given=(embedded,))
    assert plan.toggling is None
    assert (plan.variant("synchronous_commit=off").design_reason or "").startswith(reason)
    with pytest.raises(StudyError) as caught:
        resolve(study, Overrides(**overrides, design="toggled"), folder=Path("/somewhere"), given=(embedded,))
    assert (caught.value.detail or "").startswith(reason)
    assert "--design auto" in (caught.value.hint or "")


def test_toggling_is_refused_with_the_setting_that_forbids_it(embedded: Install) -> None:
    with pytest.raises(StudyError) as caught:
        _compare((embedded,), OFF, LARGE, {"shared_buffers": "1GB"}, design="toggled")
    assert caught.value.detail == (
        "max_wal_size=4GB: max_wal_size acts at checkpoints\n"
        "shared_buffers=1GB: shared_buffers changes with a restart only"
    )


def test_several_installs_are_several_servers(embedded: Install) -> None:
    other = replace(embedded, label="another")
    with pytest.raises(StudyError) as caught:
        _compare((embedded, other), OFF, design="toggled")
    assert caught.value.detail == "several installs are several servers"
    assert _compare((embedded, other), OFF).toggling is None


def test_an_offered_rate_is_toggled_only_where_that_is_asked_for(embedded: Install) -> None:
    """What a slow variant's slices do not reach of it would be done in the slices of the others."""
    plan = _compare((embedded,), OFF, workload={"rate": 100.0})
    assert (plan.toggling, plan.slicing) == (None, None)
    assert "an offered rate" in (plan.variant("synchronous_commit=off").design_reason or "")
    assert _compare((embedded,), OFF, workload={"rate": 100.0}, design="toggled").toggles_all


def test_other_kinds_have_no_slices(embedded: Install) -> None:
    study = {
        "name": "mine", "title": "?", "variant": [{"name": "default"}, {"name": "off", "settings": OFF}],
        "workload": [{"name": "w", "statement": [{"name": "one", "sql": "SELECT 1"}]}],
    }  # fmt: skip
    with pytest.raises(StudyError) as caught:
        resolve(check_study(study, "t"), Overrides(design="toggled"), folder=Path("/x"), given=(embedded,))
    assert caught.value.detail == "a study of statements has no load to cut into slices"


def test_an_unknown_design_is_refused(embedded: Install) -> None:
    with pytest.raises(StudyError, match='design "stale" does not exist'):
        _compare((embedded,), OFF, design="stale")


def test_windows_without_a_checkpoint_are_said_before_they_run(
    embedded: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    said = (
        "max_wal_size=4GB: max_wal_size acts at checkpoints, and a window of 10 s need not hold one: "
        '"walproof wal whatif" predicts from recorded WAL, --duration 360s has longer windows.'
    )
    plan = _compare((embedded,), OFF, LARGE, {**COMPRESSED, **LARGE})
    assert without_cycles(plan) == [said], "compressed images show in short windows, too"
    say_notes(plan)
    assert capsys.readouterr().err == f"{said}\n"
    assert said in plan_text(plan, ["walproof", "compare"])
    assert without_cycles(_compare((embedded,), OFF, COMPRESSED)) == []
    assert without_cycles(_compare((embedded,), LARGE, workload={"duration": 300})) == []
    assert without_cycles(_compare((embedded,), LARGE, base={"checkpoint_timeout": "30s"})) != []
    often = _compare((embedded,), {"checkpoint_timeout": "30s"}, workload={"duration": 30})
    assert without_cycles(often) == [], "one of the two has checkpoints in its windows"
