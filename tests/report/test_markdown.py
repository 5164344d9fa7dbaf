"""Markdown: a golden report, and names that cannot become markup."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from tests.report.facts import durability, hostile_facts, small_facts
from walproof.advise.finding import Finding, FindingKind
from walproof.analysis.summary import analyse
from walproof.report.kinds.throughput.kind import ThroughputReport
from walproof.report.kinds.throughput.view import throughput_view
from walproof.report.markdown import escape, fenced, to_markdown
from walproof.report.view import build_view
from walproof.settings.durability import DurabilityClass

_GOLDEN = Path(__file__).parent / "golden" / "small.md"


def test_golden_report() -> None:
    """A small run with two findings, as text. WALPROOF_UPDATE=1 rewrites the file."""
    facts = small_facts()
    analysis = analyse(facts.run.plan, facts.trials)
    findings = (
        Finding(
            FindingKind.FLUSH,
            "18.3",
            "scale 1",
            "default",
            DurabilityClass.NONE,
            "commits wait for a flush",
            (1,),
            {},
        ),
        Finding(FindingKind.DRIFT, None, None, None, None, "the machine was steady", (1, 2), {}),
    )
    text = to_markdown(
        throughput_view(ThroughputReport(), facts.run, facts.trials, facts.series, analysis, findings)
    )
    # What follows is the plan as JSON, whose keys are tested where they are made.
    text = text[: text.index("## Run it again")]
    if os.environ.get("WALPROOF_UPDATE") == "1":
        _GOLDEN.parent.mkdir(exist_ok=True)
        _GOLDEN.write_text(text, encoding="utf-8")
    assert text == _GOLDEN.read_text(encoding="utf-8")


def test_tables_have_the_same_width_in_every_row() -> None:
    for facts in (durability(), hostile_facts()):
        text = to_markdown(build_view(facts.run, facts.trials, facts.series))
        outside, tables = True, 0
        width = 0
        for line in text.splitlines():
            if re.fullmatch(r"`{3,}", line):
                outside = not outside
            if outside and line.startswith("|"):
                cells = len(re.findall(r"(?<!\\)\|", line)) - 1
                tables += width == 0
                assert cells == (width or cells), line
                width = cells
            else:
                width = 0
        assert tables >= 10


def test_names_cannot_be_markup() -> None:
    facts = hostile_facts()
    text = to_markdown(
        build_view(replace(facts.run, study_text="```\n# not a heading"), facts.trials, facts.series)
    )
    outside = re.sub(r"(?ms)^(`{3,})$.*?^\1$", "", text)
    assert "\\<script\\>" in outside
    assert not re.search(r"(?<!\\)<script", outside)
    assert not re.search(r"(?<!\\)\]\(", outside)
    assert "https://" not in outside
    assert "\x1b" not in text


def test_fence_is_longer_than_any_in_the_text() -> None:
    assert fenced("a\n````\nb") == "`````\na\n````\nb\n`````"
    assert escape("a|b*c\nd") == "a\\|b\\*c d"
