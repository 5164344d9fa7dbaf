"""The report on the hosts of a tuning: the advised configuration on each host, and on a host like these."""

from __future__ import annotations

from walproof.analysis.hosts import Across, HostStudy
from walproof.facts.tuning import DEFAULT, Candidate
from walproof.facts.tuning_answers import candidate_name
from walproof.report.blocks import Block, Paragraph, Section
from walproof.report.hosts import effect_blocks, level_blocks
from walproof.report.numbers import ratio
from walproof.sentences import say_count

_MEASURED = (
    "From the last step with both the advised configuration and the defaults, compared within each host. "
    "Ratios are of the metric itself: for a latency, less is better."
)


def host_sentences(study: HostStudy, conf: Candidate, *, larger_is_better: bool) -> list[str]:
    """The advised configuration over all hosts, on a host like these, and on hosts where it is worse."""
    found = _of(study, conf)
    if found is None:
        return []
    said = []
    if found.mean is not None:
        text = f"Over {say_count(len(found.hosts), 'host')}: {study.metric} "
        text += f"{ratio(found.mean, found.interval)} of the defaults'"
        if found.prediction is not None:
            text += (
                f"; on one more host like these {found.prediction.low:.2f}x to {found.prediction.high:.2f}x"
            )
        said.append(f"{text}.")
    for host in found.hosts:
        is_worse = host.interval.high < 1 if larger_is_better else host.interval.low > 1
        if is_worse:
            said.append(f"On {host.host} IT IS WORSE than the defaults: {ratio(host.value, host.interval)}.")
    if found.odd:
        names = ", ".join(host.host for host in found.odd)
        said.append(f"On {names} its effect differs from that on the other hosts.")
    slow = dict.fromkeys(host.host for level in study.levels for host in level.odd)
    if slow:
        said.append(f"Even with the defaults, these stand apart from the other hosts: {', '.join(slow)}.")
    return said


def hosts_section(study: HostStudy) -> Section:
    """Each host, all hosts together, and the hosts that stand apart."""
    blocks: list[Block] = [Paragraph(_MEASURED), *effect_blocks(study), *level_blocks(study)]
    return Section("hosts", "Hosts", tuple(blocks))


def _of(study: HostStudy, conf: Candidate) -> Across | None:
    if conf == DEFAULT:
        return None
    name = candidate_name(conf)
    return next(
        (
            effect
            for effect in study.effects
            if effect.cell.variant == name
            and effect.baseline is not None
            and effect.baseline.variant == candidate_name(DEFAULT)
        ),
        None,
    )
