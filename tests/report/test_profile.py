"""Profiles in a report: frames that stand on their callers, functions by what they take, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.facts import make_facts
from walproof.facts import Replay, Trial, TrialState
from walproof.report.blocks import Paragraph, Section, Table
from walproof.report.figures.figure import Figure
from walproof.report.html import to_html
from walproof.report.kinds.replay.flame import FlameData
from walproof.report.layout import ReportView
from walproof.report.view import build_view

STACKS = {
    "StartupXLOG;btree_redo;llseek;ext4_llseek_[k]": 22.0,
    "StartupXLOG;btree_redo;hash_search": 18.0,
    "StartupXLOG;btree_redo;pread;__x64_sys_pread64_[k];copy_[k]": 10.0,
    "StartupXLOG": 50.0,
}


def profile_view(metrics: dict[str, float]) -> ReportView:
    facts = make_facts()
    plan = replace(
        facts.run.plan,
        kind=Replay(1000, 1000, 500),
        workloads=facts.run.plan.workloads[:1],
        variants=facts.run.plan.variants[:2],
        references=(),
    )
    trials = [
        Trial(number, 1, *cell, TrialState.DONE, 0.0, 1.0, 0.0, 1.0,
              {"startup_us_per_row": 2.0 + number, **(metrics if number == 1 else {})}, {})
        for number, cell in enumerate(plan.cells, start=1)
    ]  # fmt: skip
    return build_view(replace(facts.run, plan=plan), trials)


def _section(metrics: dict[str, float]) -> tuple[Section, str]:
    view = profile_view(metrics)
    (found,) = [section for section in view.sections if section.id == "profile"]
    return found, to_html(view)


@pytest.mark.parametrize("method", ["perf", "kernel"])
def test_frames_stand_on_what_calls_them(method: str) -> None:
    section, page = _section({f"profile_{method}.{stack}": count for stack, count in STACKS.items()})
    figure, table = section.blocks
    assert isinstance(figure, Figure)
    assert isinstance(figure.data, FlameData)
    (panel,) = figure.data.panels
    assert (panel.method, panel.samples) == (method, 100)
    frames = {frame.name: frame for frame in panel.frames}
    assert frames["StartupXLOG"].share == 1
    assert frames["btree_redo"].share == 0.5
    assert frames["ext4_llseek"].is_kernel
    assert not frames["llseek"].is_kernel
    assert frames["ext4_llseek"].depth == 3
    assert frames["llseek"].start == pytest.approx(frames["hash_search"].start + 0.18)
    assert isinstance(table, Table)
    rows = {row[0].text: (row[1].text, row[2].text) for row in table.rows}
    assert rows["StartupXLOG"] == ("50 %", "100 %")
    assert rows["ext4_llseek [k]"] == ("22 %", "22 %")
    assert rows["pread64()"] == ("0 %", "10 %")
    assert ("perf would show" in str(table.note)) == (method == "kernel")
    assert "btree_redo: 50 %" in page


def test_no_profile_is_said() -> None:
    section, _ = _section({})
    (block,) = section.blocks
    assert isinstance(block, Paragraph)
    assert "not profiled" in block.text
