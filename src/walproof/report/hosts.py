"""A study over several hosts, laid out for reading: which host stands apart, and what a setting does on
all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from walproof import __version__
from walproof.analysis.hosts import Across, HostEstimate, HostStudy
from walproof.facts import Plan
from walproof.facts.metrics import metric
from walproof.report.blocks import Block, Column, Paragraph, Section, Table, text_cells
from walproof.report.html import environment
from walproof.report.numbers import UNKNOWN, number, percent, ratio, shown
from walproof.sentences import say_count, say_list


@dataclass(frozen=True, slots=True)
class HostsView:
    """The page."""

    question: str
    dateline: str
    sections: tuple[Section, ...]


def hosts_view(
    plan: Plan, study: HostStudy, runs: Mapping[str, str], left_out: Mapping[str, str]
) -> HostsView:
    """``runs``: the run of each host; ``left_out``: hosts without a result, and why."""
    parts = {"settings": len(plan.variants) > 1, "installs": len(plan.installs) > 1}
    compared = " and ".join(name for name, has_several in parts.items() if has_several)
    as_baseline = "without the settings" if parts["settings"] else "with the first install"
    sections = (
        Section("losses", "What was lost", tuple(loss_blocks(study))),
        Section("effects", f"What the {compared} do", tuple(effect_blocks(study))),
        Section("levels", f"Hosts {as_baseline}", tuple(level_blocks(study))),
        Section("hosts", "Runs", tuple(_run_blocks(runs, left_out))),
    )
    return HostsView(
        question=plan.title,
        dateline=f"{say_count(len(runs), 'host')} · {study.metric} · compared within each host",
        sections=tuple(section for section in sections if section.blocks),
    )


def effect_blocks(study: HostStudy) -> list[Block]:
    """Of each variant or install: its ratio on every host, over hosts, and who stands apart."""
    blocks: list[Block] = []
    for effect in study.effects:
        rows = [
            (host.host + _mark(host), ratio(host.value, host.interval), str(host.rounds))
            for host in effect.hosts
        ]
        rows += [(host, UNKNOWN, "too few") for host in effect.silent]
        if effect.mean is not None:
            rows.append(("these hosts", ratio(effect.mean, effect.interval), ""))
        if effect.prediction is not None:
            rows.append(("a host like these", ratio(effect.mean, effect.prediction), ""))
        columns = (Column("host"), Column(f"{study.metric}, ratio (95 %)", numeric=True), Column("rounds"))
        blocks += [
            Table(_compared(effect), columns, tuple(text_cells(row) for row in rows)),
            *(Paragraph(text, terminal=True) for text in _said(effect, "the ratio")),
        ]
    return blocks


def _compared(effect: Across) -> str:
    """``fsync=off, against default (18.4, scale 50)``; of an install, ``18.4, against 16.9 (default, scale
    50)``."""
    assert effect.baseline is not None
    cell, baseline = effect.cell, effect.baseline
    if cell.install != baseline.install:
        return f"{cell.install}, against {baseline.install} ({cell.variant}, {cell.workload})"
    return f"{cell.variant}, against {baseline.variant} ({cell.install}, {cell.workload})"


def level_blocks(study: HostStudy) -> list[Block]:
    """Of each baseline: its own figure on every host, against the others."""
    unit = metric(study.metric).unit
    blocks: list[Block] = []
    for level in study.levels:
        title = f"{level.cell.variant} ({level.cell.install}, {level.cell.workload})"
        rows = [
            (
                host.host + _mark(host),
                shown(study.metric, host.value),
                f"{number(host.interval.low)} to {number(host.interval.high)}",
                ratio(host.against_others),
            )
            for host in level.hosts
        ]
        columns = (
            Column("host"),
            Column(f"{study.metric}{unit and f' ({unit})'}", numeric=True),
            Column("95 %"),
            Column("against the others", numeric=True),
        )
        blocks += [
            Table(title, columns, tuple(text_cells(row) for row in rows)),
            *(Paragraph(text, terminal=True) for text in _said(level, study.metric)),
        ]
    return blocks


def loss_blocks(study: HostStudy) -> list[Block]:
    """Of each variant whose power was cut, or after whose primary a standby was promoted: what was gone."""
    blocks: list[Block] = []
    for cell in dict.fromkeys(loss.cell for loss in study.losses):
        of_cell = [loss for loss in study.losses if loss.cell == cell]
        # A failover leaves no images.
        has_images = any(loss.images for loss in of_cell)
        rows = [
            (
                loss.host,
                str(loss.count),
                str(loss.losing),
                str(loss.commits_most),
                *([say_list([f"{count} {state}" for state, count in loss.images.items()])] * has_images),
            )
            for loss in of_cell
        ]
        columns = (
            Column("host"),
            Column("power cuts" if has_images else "failovers", numeric=True),
            Column("with a loss", numeric=True),
            Column("most commits lost", numeric=True),
            *((Column("images"),) * has_images),
        )
        title = f"{cell.variant} ({cell.install}, {cell.workload})"
        blocks.append(Table(title, columns, tuple(text_cells(row) for row in rows)))
    return blocks


def _said(across: Across, what: str) -> list[str]:
    said = [
        f"{host.host} stands apart: {what} is {number(host.against_others)} times that of the other hosts "
        f"(p = {number(host.odd_p)} after all hosts are counted). Look at it before you believe the mean."
        for host in across.odd
    ]
    said += [
        f"{host.host} may stand apart: {what} is {number(host.against_others)} times that of the other hosts "
        f"(p = {number(host.odd_p)} after all hosts are counted). More hosts would make it sure; look at it."
        for host in across.suspect
    ]
    if across.between is not None:
        said.append(f"Hosts differ by {percent(math.expm1(across.between))} (standard deviation of {what}).")
    if across.mean is not None and across.prediction is None:
        said.append("Two hosts do not show what a third would do.")
    if across.hosts and len(across.hosts) < 4:
        said.append("With four hosts or more the report names a host that stands apart.")
    return said


def _run_blocks(runs: Mapping[str, str], left_out: Mapping[str, str]) -> list[Block]:
    rows = [(host, run) for host, run in runs.items()]
    rows += [(host, f"left out: {reason}") for host, reason in left_out.items()]
    columns = (Column("host"), Column("run", whole_most=60))
    return [
        Table("The run of each host", columns, tuple(text_cells(row) for row in rows)),
        Paragraph('"walproof show RUN" with the same --store shows each host by itself.', terminal=True),
    ]


def _mark(host: HostEstimate) -> str:
    if host.is_odd:
        return " (apart)"
    return " (apart?)" if host.is_suspect else ""


def to_html(view: HostsView) -> str:
    """One file that needs nothing else."""
    template = environment().get_template("wal.html.j2")
    return template.render(view=view, version=__version__, kicker="hosts")


def to_json(study: HostStudy, runs: Mapping[str, str], left_out: Mapping[str, str]) -> str:
    """All numbers, with null for what is not known."""
    facts: dict[str, object] = {
        "runs": dict(runs),
        "left_out": dict(left_out),
        **host_facts(study),
        "losses": [asdict(loss) for loss in study.losses],
    }
    return json.dumps(facts, indent=2) + "\n"


def host_facts(study: HostStudy) -> dict[str, object]:
    """The numbers of a study as they go into JSON."""

    def across(found: Sequence[Across]) -> list[dict[str, object]]:
        return [
            {
                **asdict(across_hosts),
                "hosts": [
                    {**asdict(host), "is_odd": host.is_odd, "is_suspect": host.is_suspect}
                    for host in across_hosts.hosts
                ],
            }
            for across_hosts in found
        ]

    return {
        "metric": study.metric,
        "effects": across(study.effects),
        "levels": across(study.levels),
    }
