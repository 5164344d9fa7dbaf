"""Several comparisons at once: how often would any of them look that different by chance?

Of twenty comparisons at the 95 % level one shows a difference by chance. The single-step answer is the
distribution of the largest |t| of the family: Dunnett (1955) for comparisons with one baseline, which are
correlated because they share its trials. Holm's adjustment (``walproof.analysis.comparisons``) does not know
of the correlation and asks for more.

A comparison's t has a numerator that it shares in part with the others of its baseline and, where spreads
are pooled, a denominator that all of them share. Groups with different baselines, and comparisons that are
judged by their own spreads, count as independent; where they are not, the true chance is smaller (Sidak
1967).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float64]

_NODES = 64
"""Nodes of each quadrature. Doubling them moves no p value between 1e-4 and 1 by as much as 1e-5."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison of a family."""

    p: float
    """Two-sided p value of the comparison alone."""
    degrees: float
    """Degrees of freedom of its spread."""
    group: Hashable
    """What it is compared with."""
    shared: float
    """Share of its variance that comes from that baseline; two correlate by the geometric mean of theirs."""
    is_pooled: bool
    """Whether it shares its spread with the other pooled comparisons of the group."""


def family_p_values(family: Sequence[Compared]) -> tuple[float, ...]:
    """Each p value adjusted for the whole family, in the given order.

    Below 0.05 for any of them happens in at most 5 % of families without a difference. Never below the p
    value itself, never above Bonferroni's bound.
    """
    found: dict[float, float] = {}
    for p in {compared.p for compared in family}:
        none = math.prod(_none_in_group(members, p) for members in _groups(family))
        found[p] = min(1.0, len(family) * p, max(p, 1 - none))
    return tuple(found[compared.p] for compared in family)


def _groups(family: Sequence[Compared]) -> list[list[Compared]]:
    groups: dict[Hashable, list[Compared]] = {}
    for index, compared in enumerate(family):
        key = (compared.group, compared.degrees) if compared.is_pooled else index
        groups.setdefault(key, []).append(compared)
    return list(groups.values())


def _none_in_group(members: Sequence[Compared], p: float) -> float:
    """Chance that no comparison of the group has a p value below ``p`` if nothing differs."""
    from scipy.special import stdtrit

    if len(members) == 1 or p <= 0 or p >= 1:
        return (1 - p) ** len(members)
    degrees = members[0].degrees
    reach = -float(stdtrit(degrees, p / 2))
    if not math.isfinite(reach):
        return 1.0
    return _all_within(reach, tuple(sorted(member.shared for member in members)), degrees)


@lru_cache(maxsize=4096)
def _all_within(reach: float, shared: tuple[float, ...], degrees: float) -> float:
    """P(all |t| <= reach): over the shared denominator, over the baseline's part of the numerators."""
    import numpy as np
    from scipy.special import ndtr

    scale, scale_weight = _scales(degrees)
    normal, normal_weight = _normals()
    inside = np.ones((len(scale), len(normal)))
    for share in set(shared):
        rest = math.sqrt(max(1e-12, 1 - share))
        centre = math.sqrt(share) * normal[None, :]
        ends = reach * scale[:, None]
        each = ndtr((ends - centre) / rest) - ndtr((-ends - centre) / rest)
        inside = inside * each ** shared.count(share)
    return float(scale_weight @ inside @ normal_weight)


@lru_cache(maxsize=256)
def _scales(degrees: float) -> tuple[Vector, Vector]:
    """Nodes and weights of sqrt(chi-square / degrees), by Gauss-Legendre on its probabilities."""
    import numpy as np
    from scipy.special import gammaincinv

    chances, weights = _chances()
    return np.sqrt(gammaincinv(degrees / 2, chances) * 2 / degrees), weights


@lru_cache(maxsize=1)
def _chances() -> tuple[Vector, Vector]:
    from numpy.polynomial.legendre import leggauss

    nodes, weights = leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


@lru_cache(maxsize=1)
def _normals() -> tuple[Vector, Vector]:
    from numpy.polynomial.hermite_e import hermegauss

    nodes, weights = hermegauss(_NODES)
    return nodes, weights / math.sqrt(2 * math.pi)
