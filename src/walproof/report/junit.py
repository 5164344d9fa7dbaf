"""A gate as JUnit XML, which forges and build servers read: a test case for each promise and comparison.

The form is the one that the Ant task ``junitreport`` made common: ``testsuites`` > ``testsuite`` >
``testcase``, with ``failure`` for what is broken, ``error`` (or ``skipped``) for what is undecided, and
``error`` for what could not be measured.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from walproof.advise.gate import say_lost, subject
from walproof.analysis.gate import Judged, Outcome
from walproof.analysis.unmeasured import unmeasured
from walproof.report.numbers import ratio
from walproof.report.plaintext import one_line
from walproof.sentences import say_count

if TYPE_CHECKING:
    from walproof.report.layout import ReportView


def to_junit(view: ReportView, *, undecided_ok: bool) -> str:
    """The document, with its declaration. ``undecided_ok``: an undecided promise counts as skipped, not as an
    error, unless it could not be measured."""
    assert view.gate is not None
    run, found = view.run, view.gate
    counts = {outcome: sum(judged.outcome is outcome for judged in found.judged) for outcome in Outcome}
    lost = {item.judged: item for item in unmeasured(run.plan, found, view.trials)}
    skipped = counts[Outcome.UNDECIDED] - len(lost) if undecided_ok else 0
    spent = sum(trial.ended_at - trial.started_at for trial in view.trials)
    totals = {
        "tests": str(len(found.judged)),
        "failures": str(counts[Outcome.BROKEN]),
        "errors": str(counts[Outcome.UNDECIDED] - skipped),
        "skipped": str(skipped),
        "time": f"{spent:.3f}",
    }
    root = ElementTree.Element("testsuites", {"name": "walproof", **totals})
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "name": one_line(f"walproof gate: {run.plan.study}"),
            **totals,
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(run.created_at)),
        },
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("run", run.id), ("walproof", run.walproof_version), ("on", view.dateline)):
        ElementTree.SubElement(properties, "property", {"name": name, "value": one_line(value)})
    for judged in found.judged:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {
                "classname": one_line(f"walproof.{run.plan.study}.{subject(run.plan, judged)}"),
                "name": one_line(f"fails if {judged.promise.text}"),
                # All promises are decided by the same trials.
                "time": f"{spent / len(found.judged):.3f}",
            },
        )
        if judged in lost:
            item = lost[judged]
            said = one_line(f"could not be measured: {say_lost(run.plan, item)}: {item.reason}")
            kind = "failed trials" if item.sides else "not measured"
            ElementTree.SubElement(case, "error", {"type": kind, "message": said})
        else:
            _outcome(case, judged, undecided_ok=undecided_ok)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _outcome(case: ElementTree.Element, judged: Judged, *, undecided_ok: bool) -> None:
    measured = f"ratio {ratio(judged.ratio, judged.interval)}, limit {judged.promise.limit_text}"
    if judged.outcome is not Outcome.UNDECIDED and judged.reason is not None:
        measured = one_line(f"{measured}; {judged.reason}")
    if judged.outcome is Outcome.HOLDS:
        ElementTree.SubElement(case, "system-out").text = f"{measured}; {say_count(judged.rounds, 'round')}"
        return
    if judged.outcome is Outcome.BROKEN:
        ElementTree.SubElement(
            case, "failure", {"type": "broken", "message": f"{judged.promise.text}: {measured}"}
        ).text = f"{measured}; {say_count(judged.rounds, 'round')}"
        return
    said = one_line(f"undecided: {judged.reason}; {measured}")
    if undecided_ok:
        ElementTree.SubElement(case, "skipped", {"message": said})
    else:
        ElementTree.SubElement(case, "error", {"type": "undecided", "message": said})
