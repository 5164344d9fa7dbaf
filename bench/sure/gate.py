r"""What does a gate conclude where the truth is known? On gates drawn from a stored run, and on live ones.

    walproof compare --set commit_delay=0 --rounds 24 --out same
    PYTHONPATH=. python bench/sure/gate.py drawn same --gates 1000
    PYTHONPATH=. python bench/sure/gate.py drawn truth/runs --equal default twin --gates 1000 --rounds 40
    PYTHONPATH=. python bench/sure/gate.py live --out gates

``drawn``: two variants of the runs are the same server under two names (the second command: two of those of
``truth.py``). A gate is made of whole rounds (or starts) of all runs of one design, none twice, with the
names exchanged in half of them; then nothing differs, or the second variant's figures are changed by a
factor. Each gate is judged as a run would be. Gates share rounds, so that shares are less sure than their
number says.

``live``: gates of the command line, each with its own servers: 15 of equal settings, 5 of a load that writes
2 % more WAL (a logical message in each transaction), 5 of a load that is 5 % slower (a text that each
statement hashes). How much the load has to be changed is measured first. A gate takes 10 minutes at most (of
WAL 2), all of them at most 3 h 40 min.

Results are kept as JSON lines beside the run; the same command goes on where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.sure.pool import Start, pooled, put_together
from walproof.analysis.gate import judge
from walproof.cli.status import ExitStatus
from walproof.facts import Gate, Slice, Toggling, Trial
from walproof.facts.gate import parse_promises

PROMISES = ("tps < 0.97x", "wal_bytes_per_txn > 1.01x")
CHANGES = {
    PROMISES[0]: {"unchanged": (1.0, 1.0), "5 % less tps": (0.95, 1.0)},
    PROMISES[1]: {"unchanged": (1.0, 1.0), "2 % more WAL": (1.0, 1.02)},
}
"""Promise -> change -> factors of throughput and of WAL for each transaction."""
UNCHANGED, INJECTED = 15, 5
OUTCOMES = {ExitStatus.DONE: "holds", ExitStatus.BROKEN: "broken", ExitStatus.UNDECIDED: "undecided"}
PILOT_LENGTH = 200_000
LOAD = (
    "\\set a random(1, 100000 * :scale)\n"
    "UPDATE pgbench_accounts SET abalance = abalance + {one} WHERE aid = :a;\n"
)
ONE = "length(md5(repeat('x', {length}))) - 31"
"""1, by work in proportion to the length."""
TRANSACTIONS = ("--transactions", "1000")


def main() -> None:
    """Do the part that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    drawn = parts.add_parser("drawn")
    drawn.add_argument("folder", type=Path, nargs="+", help="--out of the runs")
    drawn.add_argument("--equal", nargs=2, metavar="NAME", help="the two variants; default: there are two")
    drawn.add_argument("--gates", type=int, default=1000)
    drawn.add_argument("--rounds", type=int, help="of a gate; default: half of all")
    live = parts.add_parser("live")
    live.add_argument("--out", type=Path, required=True)
    live.add_argument("--pg", default="embedded")
    live.add_argument("--scale", type=int, default=10)
    live.add_argument("--clients", type=int, default=4)
    given = parser.parse_args()
    if given.part == "drawn":
        draw(given.folder, given.equal, given.gates, given.rounds)
    else:
        given.out.mkdir(parents=True, exist_ok=True)
        run_live(given)


class Results:
    """Outcomes by (kind, number), stored as they come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.found = {(outcome["kind"], outcome["number"]): outcome for outcome in map(json.loads, lines)}

    def add(self, kind: str, number: int, **values: object) -> None:
        """Keep one outcome."""
        outcome = {"kind": kind, "number": number, **values}
        self.found[kind, number] = outcome
        with self._path.open("a") as stream:
            stream.write(json.dumps(outcome) + "\n")

    def print(self) -> None:
        """Print a line for each kind."""
        for kind in dict.fromkeys(kind for kind, _ in self.found):
            outcomes = [
                outcome for (name, _), outcome in self.found.items() if name == kind and "outcome" in outcome
            ]
            if not outcomes:
                continue
            counts = Counter(outcome["outcome"] for outcome in outcomes)
            shares = ", ".join(f"{word} {counts[word] / len(outcomes):.1%}" for word in OUTCOMES.values())
            print(f"{kind:<60} {len(outcomes):>5} gates: {shares}")


def draw(folders: Sequence[Path], equal: Sequence[str] | None, gates: int, rounds: int | None) -> None:
    """Judge gates made of stored rounds, for each design. Outcomes are kept in the first folder."""
    results = Results(folders[0] / f"gates-drawn-of-{len(folders)}.jsonl")
    began = time.monotonic()
    for design, (whole_plan, whole) in pooled(folders).items():
        base, other = equal or [variant.name for variant in whole_plan.variants]
        plan = replace(
            whole_plan,
            variants=tuple(variant for variant in whole_plan.variants if variant.name in (base, other)),
        )
        starts = [list(_of_two(start, (base, other))) for start in whole]
        size = rounds or len(starts) // 2
        for promise, changes in CHANGES.items():
            asked = replace(
                plan, rounds=size, budget_s=None, gate=Gate(parse_promises((promise,))),
                toggling=_of_starts(plan.toggling, size), slicing=_of_starts(plan.slicing, size),
            )  # fmt: skip
            for change, (tps, wal) in changes.items():
                kind = f"{design}, {size} of {len(starts)}, {promise}, {change}"
                for number in range(gates):
                    if (kind, number) in results.found:
                        continue
                    chance = random.Random(f"{kind}/{number}")
                    made = [
                        list(_made(start, (base, other), chance.random() < 0.5, tps, wal))
                        for start in chance.sample(starts, size)
                    ]
                    found = judge(asked, put_together(made), is_finished=True)
                    assert found is not None
                    results.add(kind, number, outcome=found.outcome.value, rounds=found.done)
    results.print()
    print(f"{time.monotonic() - began:.0f} s")


def _of_starts(cut: Toggling | None, starts: int) -> Toggling | None:
    """The same slices, in so many starts: a gate looks at no more than its plan has."""
    return None if cut is None else replace(cut, starts=starts)


def _of_two(start: Start, names: Sequence[str]) -> Iterator[Trial]:
    """A start with these variants alone."""
    for trial in start:
        if trial.slices:
            yield replace(trial, slices=tuple(one for one in trial.slices if one.variant in names))
        elif trial.variant in names:
            yield trial


def _made(start: Start, equal: tuple[str, str], swaps: bool, tps: float, wal: float) -> Iterator[Trial]:
    """A start's trials: names exchanged if asked, the second variant's figures changed."""
    base, other = equal
    names = {base: other, other: base} if swaps else {base: base, other: other}
    for trial in start:
        slices = tuple(_slice(slice_, names, other, tps, wal) for slice_ in trial.slices)
        # A start is stored as one of its baseline, whatever its slices are called.
        variant = trial.variant if slices else names[trial.variant]
        metrics = dict(trial.metrics)
        if variant == other:
            for name, factor in (("tps", tps), ("wal_bytes_per_txn", wal)):
                metrics[name] = metrics.get(name, 0.0) * factor
        yield replace(trial, variant=variant, slices=slices, metrics=metrics)


def _slice(slice_: Slice, names: dict[str, str], other: str, tps: float, wal: float) -> Slice:
    if names[slice_.variant] != other:
        return replace(slice_, variant=names[slice_.variant])
    transactions = round(slice_.transactions * tps)
    # WAL for each transaction that is left.
    length = round((slice_.lsn_end - slice_.lsn_begin) * wal * transactions / max(1, slice_.transactions))
    return replace(slice_, variant=other, transactions=transactions, lsn_end=slice_.lsn_begin + length)


def run_live(given: argparse.Namespace) -> None:
    """Run every gate that has no stored outcome."""
    results = Results(given.out / "gates-live.jsonl")
    length, wal_bytes = _measured(given, results)
    _write_loads(given.out, length)
    # A message record has about 50 bytes beside its text; two messages would have their commits, too.
    text = max(1, round(wal_bytes * 0.02) - 50)
    message = f"SELECT pg_logical_emit_message(false, 'g', repeat('x', {text}));\n"
    (given.out / "more.sql").write_text(LOAD.format(one="1") + message)
    versions = ["--script-against", "load.sql"]
    kinds = {
        "unchanged": ["--set", "commit_delay=0", "--budget", "10min", *_promises(PROMISES)],
        "5 % less tps": ["--script", "slower.sql", *versions, "--budget", "10min", *_promises(PROMISES[:1])],
        "2 % more WAL": [
            "--script", "more.sql", *versions, *TRANSACTIONS, "--budget", "2min",
            *_promises(PROMISES[1:]),
        ],
    }  # fmt: skip
    counts = {kind: UNCHANGED if kind == "unchanged" else INJECTED for kind in kinds}
    # Number by number, so that a bench that is stopped has some of each kind.
    for number in range(max(counts.values())):
        for kind in [kind for kind, count in counts.items() if number < count]:
            if (kind, number) in results.found:
                continue
            status, found, seconds = _walproof(given, number, kinds[kind])
            outcome = OUTCOMES[ExitStatus(status)]
            ratios = [[effect["ratio"], effect["interval"]] for effect in found["gate"]["judged"]]
            results.add(kind, number, outcome=outcome, seconds=seconds, ratios=ratios)
            print(f"{kind} {number + 1} of {counts[kind]}: {outcome}, {seconds:.0f} s", flush=True)
    results.print()


def _promises(texts: Sequence[str]) -> list[str]:
    return [word for text in texts for word in ("--fail-if", text)]


def _write_loads(folder: Path, length: int) -> None:
    (folder / "load.sql").write_text(LOAD.format(one="1"))
    (folder / "slower.sql").write_text(LOAD.format(one=ONE.format(length=length)))


def _measured(given: argparse.Namespace, results: Results) -> tuple[int, float]:
    """The length that takes 5 % of the load's throughput, and its bytes of WAL a transaction."""
    known = results.found.get(("the load", 0))
    if known is None:
        _write_loads(given.out, PILOT_LENGTH)
        # In so few transactions after a checkpoint most pages are written whole, as in the gates of WAL.
        words = ["--set", "commit_delay=0", "--script", "load.sql", *TRANSACTIONS, "--rounds", "3"]
        _, found, _ = _walproof(given, 0, words)
        wal = [trial["metrics"]["wal_bytes_per_txn"] for trial in found["trials"] if trial["state"] == "done"]
        words = ["--script", "slower.sql", "--script-against", "load.sql", *_promises(("tps < 0.001x",))]
        _, found, _ = _walproof(given, 0, words)
        ratio = found["gate"]["judged"][0]["ratio"]
        length = round(PILOT_LENGTH * (1 / 0.95 - 1) / (1 / ratio - 1))
        results.add("the load", 0, length=length, pilot_ratio=ratio, wal_bytes_per_txn=sum(wal) / len(wal))
        known = results.found["the load", 0]
    return known["length"], known["wal_bytes_per_txn"]


def _walproof(
    given: argparse.Namespace, seed: int, words: Sequence[str]
) -> tuple[int, dict[str, Any], float]:
    """(status, the report's JSON, seconds)."""
    began = time.monotonic()
    done = subprocess.run(
        [
            sys.executable, "-m", "walproof", "compare", "--pg", given.pg, "--scale", str(given.scale),
            "--clients", str(given.clients), "--seed", str(seed), "--json", *words,
        ],
        capture_output=True, text=True, check=False, cwd=given.out,
    )  # fmt: skip
    if done.returncode not in list(OUTCOMES):
        sys.exit(f"walproof failed with {done.returncode}:\n{done.stderr}")
    return done.returncode, json.loads(done.stdout), time.monotonic() - began


if __name__ == "__main__":
    main()
