"""The time of now in a statement: made rows have times of their own, all of which lie before it."""

from __future__ import annotations

from sqlglot import exp

from walproof.advise.workload.constants import CLOCKS, DATE, TIME, kind_of_type
from walproof.advise.workload.naming import Names
from walproof.advise.workload.parsing import COMPARISONS, NUMBERED


def replace_clocks(tree: exp.Expr, names: Names) -> frozenset[int]:
    """Put a parameter in the place of the time of now where a column is compared with it: the times of made
    rows are others, and all of them lie before now. The numbers of these parameters."""
    numbers = [int(str(node.this)[1:]) for node in tree.find_all(exp.Placeholder)
               if NUMBERED.fullmatch(str(node.this))]  # fmt: skip
    next_number = max(numbers, default=0) + 1
    first = next_number
    for node in list(tree.find_all(*COMPARISONS)):
        if isinstance(node.parent, exp.Update | exp.OnConflict):
            continue  # it is what the column becomes
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if _is_time(side, names) and _is_now(other):
                other.replace(exp.Placeholder(this=f"p{next_number}"))
                next_number += 1
                break
    return frozenset(range(first, next_number))


def _is_time(node: exp.Expr, names: Names) -> bool:
    found = names.column(node) if isinstance(node, exp.Column) else None
    return found is not None and kind_of_type(found[1].type) in (DATE, TIME)


def _is_now(node: exp.Expr) -> bool:
    """Whether an expression is made of the time of now and constants alone."""
    return node.find(*CLOCKS) is not None and node.find(exp.Placeholder, exp.Column, exp.Query) is None
