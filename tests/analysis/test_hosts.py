"""Hosts as blocks: against statsmodels, and on facts in which one host is slow or strange."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from statsmodels.stats.meta_analysis import combine_effects

from tests.analysis.facts import DEFAULT, FSYNC_OFF, INSTALL, OLDER, make_plan, make_trials
from tests.analysis.slices import start, toggled_plan
from tests.facts.plans import plan, trial
from tests.schemas import assert_valid
from walproof.analysis.hosts import HostStudy, over_hosts
from walproof.analysis.inference.random_effects import apart, combine
from walproof.facts import CheckedImage, CutFacts, ImageState, Plan, Trial, Variant
from walproof.report.hosts import hosts_view, to_html, to_json

HOSTS = ("ash", "elm", "fir", "oak")


def test_the_mean_and_the_spread_are_those_of_statsmodels() -> None:
    chance = np.random.default_rng(7)
    for count in (2, 3, 5, 12):
        values = chance.normal(0.3, 0.2, count)
        variances = chance.uniform(0.001, 0.02, count)
        theirs = combine_effects(values, variances, method_re="iterated", atol=1e-12)
        ours = combine(values.tolist(), variances.tolist())
        assert ours.tau**2 == pytest.approx(theirs.tau2, abs=1e-7)
        assert ours.mean == pytest.approx(theirs.mean_effect_re, abs=1e-6)
        assert ours.error >= theirs.sd_eff_w_re - 1e-7
        if theirs.tau2 > 0:
            assert ours.error == pytest.approx(theirs.sd_eff_w_re_hksj, rel=1e-4)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    chance = np.random.default_rng(11)
    inside, next_inside, named, runs = 0, 0, 0, 600
    for _ in range(runs):
        variances = chance.uniform(0.0005, 0.002, 5)
        values = chance.normal(0, 0.05, 5) + chance.normal(0, np.sqrt(variances))
        found = combine(values.tolist(), variances.tolist())
        assert found.prediction is not None
        inside += found.interval.contains(0.0)
        next_inside += found.prediction.contains(float(chance.normal(0, 0.05)))
        named += any(
            distance is not None and distance[1] < 0.05
            for distance in apart(values.tolist(), variances.tolist())
        )
    assert inside / runs > 0.92
    assert next_inside / runs > 0.94
    assert named / runs < 0.09


def facts(slow: str | None, strange: str | None) -> tuple[Plan, dict[str, list[Trial]]]:
    chance = random.Random(3)
    asked = plan()
    found: dict[str, list[Trial]] = {}
    for host in HOSTS:
        rows: list[Trial] = []
        for round_number in range(1, 9):
            for cell in asked.cells:
                tps = 1000.0 * math.exp(chance.gauss(0, 0.01)) * (0.5 if host == slow else 1.0)
                if cell.variant != asked.baseline:
                    tps *= 0.9 if host == strange else 1.4
                made = replace(trial(len(rows) + 1), round=round_number, metrics={"tps": tps})
                rows.append(replace(made, install=cell.install, workload=cell.workload, variant=cell.variant))
        found[host] = rows
    return asked, found


def study(slow: str | None, strange: str | None) -> tuple[Plan, HostStudy]:
    asked, found = facts(slow, strange)
    return asked, over_hosts(asked, found, "tps")


def test_a_slow_host_is_named_and_changes_no_ratio() -> None:
    asked, found = study("fir", None)
    assert [[host.host for host in level.odd] for level in found.levels] == [["fir"]] * len(found.levels)
    assert found.levels[0].odd[0].against_others == pytest.approx(0.5, rel=0.03)
    for effect in found.effects:
        assert effect.odd == ()
        assert effect.mean == pytest.approx(1.4, rel=0.02)
        assert effect.interval is not None
        assert effect.prediction is not None
        assert (
            effect.prediction.low < effect.interval.low < 1.4 < effect.interval.high < effect.prediction.high
        )
    view = hosts_view(asked, found, dict.fromkeys(HOSTS, "run"), {"yew": "no room"})
    page = to_html(view)
    assert "fir stands apart" in page
    assert "left out: no room" in page
    stored = json.loads(to_json(found, {}, {}))
    assert [host["is_odd"] for host in stored["levels"][0]["hosts"]] == [False, False, True, False]


def test_a_host_that_four_are_too_few_to_judge_is_named_with_a_doubt() -> None:
    """Levels as bench/hosts/slow.py measured them on 2026-11-24, with half of the CPU for the first."""
    asked, found = study("fir", None)
    logs = [math.log(value) for value in (81.6, 250.3, 254.4, 202.8)]
    verdicts = apart(logs, [0.0037, 0.0024, 0.0033, 0.0007])
    hosts = tuple(
        replace(host, against_others=math.exp(verdict[0]), odd_p=verdict[1])
        for host, verdict in zip(found.levels[0].hosts, verdicts, strict=True)
        if verdict is not None
    )
    level = replace(found.levels[0], hosts=hosts)
    first = hosts[0]
    assert (level.odd, level.suspect) == ((), (first,))
    assert first.against_others == pytest.approx(0.35, abs=0.01)
    page = to_html(hosts_view(asked, replace(found, levels=(level,)), {}, {}))
    assert f"{first.host} may stand apart" in page
    assert f"{first.host} (apart?)" in page
    stored = json.loads(to_json(replace(found, levels=(level,)), {}, {}))
    assert [host["is_suspect"] for host in stored["levels"][0]["hosts"]] == [True, False, False, False]


def test_a_host_on_which_the_setting_does_something_else_is_named() -> None:
    _, found = study(None, "oak")
    assert all(level.odd == () for level in found.levels)
    for effect in found.effects:
        assert [host.host for host in effect.odd] == ["oak"]
        assert effect.between is not None
        assert effect.between > 0.1


def test_two_hosts_say_nothing_of_a_third() -> None:
    asked, all_facts = facts(None, None)
    found = over_hosts(asked, {host: all_facts[host] for host in HOSTS[:2]}, "tps")
    assert all(effect.prediction is None and effect.mean is not None for effect in found.effects)
    alone = over_hosts(asked, {"ash": all_facts["ash"], "elm": all_facts["elm"][:2]}, "tps")
    assert all(effect.mean is None and effect.silent == ("elm",) for effect in alone.effects)


def test_the_level_of_a_host_is_the_baselines_where_settings_are_toggled() -> None:
    """A start is stored as one trial, whose own tps is that of all its slices."""
    asked = toggled_plan("default", "fast", passes=20)
    halved = {"default": math.log(0.5)}
    found = {
        host: [start(asked, number, random.Random(seed + number), effects=halved) for number in (1, 2)]
        for seed, host in zip((10, 20), HOSTS, strict=False)
    }
    (level,) = over_hosts(asked, found, "tps").levels
    assert level.cell.variant == "default"
    for host in level.hosts:
        assert host.value == pytest.approx(500, rel=0.2), "of 1000, and 900 in the trial's own metrics"


@pytest.mark.parametrize("variants", [(DEFAULT,), (DEFAULT, FSYNC_OFF)])
def test_installs_are_compared_with_the_first(variants: tuple[Variant, ...]) -> None:
    asked = make_plan(variants, installs=(OLDER, INSTALL))
    found = {
        host: make_trials(asked, 6, lambda cell: 1200 if cell.install == INSTALL.label else 1000, seed=seed)
        for seed, host in enumerate(HOSTS)
    }
    compared = over_hosts(asked, found, "tps")
    newer = [effect for effect in compared.effects if effect.cell.install == INSTALL.label]
    of_installs = [effect for effect in newer if effect.baseline and effect.baseline.install == OLDER.label]
    assert [effect.cell.variant for effect in of_installs] == [variant.name for variant in variants]
    assert all(effect.mean == pytest.approx(1.2, rel=0.05) for effect in of_installs)
    installs = [OLDER.label] if len(variants) == 1 else [OLDER.label, INSTALL.label]
    assert [(level.cell.install, level.cell.variant) for level in compared.levels] == [
        (install, "default") for install in installs
    ]
    page = to_html(hosts_view(asked, compared, dict.fromkeys(HOSTS, "run"), {}))
    assert "18.3, against 15.9 (default, scale 1)" in page
    assert ("Hosts with the first install" in page) is (len(variants) == 1)


def test_what_power_cuts_and_failovers_lost_is_shown_of_each_host() -> None:
    sound = CheckedImage(1, 7, "random 0.5 of 512 B", ImageState.CLEAN, None, 0, 0, None, 0.4)
    broken = replace(sound, state=ImageState.CORRUPT, reason="an index", lost_commits=3)
    cut = CutFacts(9, "wal flush 5", "busy", 100, 1.5, 4096, 2, (), (sound, broken))
    found = {
        "ash": [replace(trial(number, round_number=number), cut=cut) for number in (1, 2)],
        "elm": [replace(trial(1), cut=replace(cut, images=(sound,)))],
        "fir": [replace(trial(1), metrics={"tps": 9.0, "commits_lost": 4.0})],
        "oak": [trial(1)],
    }
    asked = plan(variants=1)
    lost = over_hosts(asked, found, "tps")
    assert [(loss.host, loss.count, loss.losing, loss.commits_most, loss.images) for loss in lost.losses] == [
        ("ash", 2, 2, 3, {"clean": 2, "corrupt": 2}),
        ("elm", 1, 0, 0, {"clean": 1}),
        ("fir", 1, 1, 4, {}),
    ]
    page = to_html(hosts_view(asked, lost, dict.fromkeys(HOSTS, "run"), {}))
    assert "2 clean and 2 corrupt" in page
    stored = json.loads(to_json(lost, {}, {}))
    assert_valid("hosts", stored)
    assert stored["losses"][0]["images"] == {"clean": 2, "corrupt": 2}
