"""Which functions use the CPU of replay: functions by themselves, and system calls with all they do."""

from __future__ import annotations

from collections.abc import Mapping

from walproof.facts import Cell
from walproof.facts.profile import KERNEL_MARK, stacks_of
from walproof.report.blocks import Block, Column, Paragraph, Table, TableCell
from walproof.report.cells import Cells
from walproof.report.numbers import percent
from walproof.sentences import say_count

_FUNCTIONS_MOST = 12
_SYSCALL = "__x64_sys_"
_COLUMNS = (Column("function"), Column("itself", numeric=True), Column("with what it calls", numeric=True))
_NOTES = {
    "perf": "Stacks counted by perf in a separate replay, which is in no other table. A system call's name "
    "ends in (); functions of the kernel are marked [k]. Where perf could not unwind the stack, the caller "
    "is not known.",
    "kernel": "Kernel stacks sampled in a separate replay, which is in no other table: what the server does "
    "itself is one line. perf would show its functions.",
}


def profile_tables(cells: Cells) -> list[Block]:
    """One table a profile; a sentence for a study whose trials have none."""
    tables: list[Block] = []
    is_begun = False
    for install, workload in cells.groups():
        for variant in cells.variants():
            for trial in cells.finished(Cell(install, workload, variant.name)):
                is_begun = True
                found = stacks_of(trial.metrics)
                if found is not None:
                    method, stacks = found
                    total = say_count(sum(stacks.values()), "sample")
                    title = f"PostgreSQL {install}, {variant.name}: {total}"
                    tables.append(Table(title, _COLUMNS, _rows(stacks), _NOTES[method], terminal=False))
    if not tables and is_begun:
        return [Paragraph("The startup process was not profiled; the warnings say why.")]
    return tables


def _rows(stacks: Mapping[tuple[str, ...], int]) -> tuple[tuple[TableCell, ...], ...]:
    total = sum(stacks.values())
    itself: dict[str, int] = {}
    whole: dict[str, int] = {}
    for stack, count in stacks.items():
        itself[stack[-1]] = itself.get(stack[-1], 0) + count
        # A function that calls itself is counted once.
        for name in set(stack):
            whole[name] = whole.get(name, 0) + count
    calls = [name for name in whole if name.startswith(_SYSCALL)]
    named = sorted((n for n in itself if n not in calls), key=lambda n: (-itself[n], n))[:_FUNCTIONS_MOST]
    named += sorted(calls, key=lambda name: (-whole[name], name))
    return tuple(
        (
            TableCell(_shown(name)),
            TableCell(percent(itself.get(name, 0) / total)),
            TableCell(percent(whole[name] / total)),
        )
        for name in named
    )


def _shown(name: str) -> str:
    if name.startswith(_SYSCALL):
        return f"{name.removesuffix(KERNEL_MARK).removeprefix(_SYSCALL)}()"
    return name.replace(KERNEL_MARK, " [k]")
