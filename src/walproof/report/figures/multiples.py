"""Small multiples: the panels of a group side by side under its title, one group below the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from walproof.report.figures.style import configured


class _Panel(Protocol):
    @property
    def group(self) -> str: ...


P = TypeVar("P", bound=_Panel)


def draw_multiples(
    panels: Sequence[P], columns: int, draw_group: Callable[[Sequence[P]], Sequence[Any]]
) -> dict[str, Any]:
    """Vega-Lite specification of the panels; ``draw_group`` makes a chart of each of one group's."""
    import altair as alt

    groups: dict[str, list[P]] = {}
    for panel in panels:
        groups.setdefault(panel.group, []).append(panel)
    rows = [
        alt.concat(*draw_group(members), columns=columns, spacing=14).properties(title=group)
        for group, members in groups.items()
    ]
    return configured(alt.vconcat(*rows, spacing=18))
