"""How soon does each search know a good configuration? Replayed on a measured grid, with resampled noise.

    PYTHONPATH=. python bench/tune/replay.py FOLDER/table.jsonl... --results replays.jsonl [--replays 1000]
        [--within 0.03]

Each replay is a row of ``--results``: after how many trials the answer of a search changed, and how far each
answer is from the best point that the limits allow. What is there is not replayed again. The summary says

    minutes     until the answer is within 3 % (``--within``) of the best, and stays so: median, 90th
                percentile (never: that of the replays in which it did not get there within its trials)
    regret      how much slower the answer is than the best, after a quarter, a half and all of the budget

``ours`` answers with its incumbent, and later with its short conf; ``random`` and ``tpe`` with the best mean.
They are replayed for ``--longer`` times as many trials, so that their minutes are known where they are slow.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median

import numpy as np

from bench.tune.rivals import plain_tpe, random_search
from bench.tune.table import Table, load, tuned
from walproof.analysis.tuning import race
from walproof.analysis.tuning.search import TuneSearch
from walproof.facts.tuning import Candidate, Objective, Promises, Purpose, TuningPlan
from walproof.settings.durability import DurabilityClass

SEARCHES = ("ours", "random", "tpe")


@dataclass(frozen=True, slots=True)
class Answers:
    """A replay: the distance of its answer from the best, from which trial on."""

    search: str
    seed: int
    regrets: tuple[tuple[int, float], ...]
    trials: int

    def good_from(self, within: float) -> float:
        """Trials after which every answer was so near the best; infinite: never."""
        good_from = float("inf")
        for trial, regret in self.regrets:
            good_from = min(good_from, trial) if regret <= within else float("inf")
        return good_from

    def regret_at(self, trial: float) -> float:
        """Regret of the answer after this many trials; before any answer, that of the first."""
        return [self.regrets[0][1], *(regret for at, regret in self.regrets if at <= trial)][-1]


def main() -> None:
    """Replay what is missing, then summarise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--replays", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=45.0, help="budget of a tuning")
    parser.add_argument("--within", type=float, default=0.03, help="of the best: what is good")
    parser.add_argument("--longer", type=float, default=3.0)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    known = read(given.results)
    for path in given.tables:
        name, table = path.parent.name or path.stem, load(path)
        trials = int(60 * given.minutes / table.trial_s)
        todo = [
            (search, seed)
            for search in SEARCHES
            for seed in range(given.replays)
            if (name, search, seed) not in known
        ]
        run = partial(replayed, table, trials, given.longer)
        with ProcessPoolExecutor(given.processes) as pool, given.results.open("a", encoding="utf-8") as file:
            for found in pool.map(run, todo):
                known[name, found.search, found.seed] = found
                row = [name, found.search, found.seed, found.regrets, found.trials]
                file.write(json.dumps(row) + "\n")
                file.flush()
        replays = [
            replay
            for (table_name, _, seed), replay in known.items()
            if table_name == name and seed < given.replays
        ]
        print("\n".join(summary(name, table, replays, trials, given.within)))


def read(path: Path) -> dict[tuple[str, str, int], Answers]:
    """Replays that are done; a line that was cut short by an interruption is not one."""
    found: dict[tuple[str, str, int], Answers] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            name, search, seed, regrets, trials = json.loads(line)
        except ValueError:
            continue
        found[name, search, seed] = Answers(
            search, seed, tuple((at, regret) for at, regret in regrets), trials
        )
    return found


def replayed(table: Table, trials: int, longer: float, which: tuple[str, int]) -> Answers:
    """One replay of a search."""
    search, seed = which
    plan = TuningPlan(
        table.factors,
        {},
        (),
        Promises(DurabilityClass.NONE),
        Objective("value", True),
        trials * table.trial_s,
        seed,
    )
    if search == "ours":
        answers = _ours(table, plan)
    else:
        rival = random_search if search == "random" else plain_tpe
        answers = enumerate(rival(table, plan, int(trials * longer)), start=1)
        trials = int(trials * longer)
    regrets: list[tuple[int, float]] = []
    for at, answer in answers:
        regret = table.best / table.truth[answer] - 1
        if not regrets or regrets[-1][1] != regret:
            regrets.append((at, regret))
    return Answers(search, seed, tuple(regrets), trials)


def _ours(table: Table, plan: TuningPlan) -> Iterator[tuple[int, Candidate]]:
    search = TuneSearch(table.judge)
    for facts in tuned(table, plan, search):
        racing = facts.steps[-1].purpose in (Purpose.RECORD, Purpose.SCREEN, Purpose.SEARCH)
        yield len(facts.measured), race.replay(facts).incumbent if racing else search.short(facts)


def summary(name: str, table: Table, replays: list[Answers], trials: int, within: float) -> Iterator[str]:
    """Return the table of a case, as Markdown."""
    minute = table.trial_s / 60
    good, noise = table.good_points(within), 100 * float(table.noise.std())
    yield f"\n{name}: {good} of {len(table.truth)} points are within {100 * within:g} % of the allowed best;"
    yield f"noise {noise:.1f} %, a trial {table.trial_s:.0f} s, budget {trials * minute:.0f} min\n"
    yield "| search | replays | minutes | 90th percentile | never | regret at 1/4 | at 1/2 | at the end |"
    yield "|---|---|---|---|---|---|---|---|"
    medians = {}
    for search in SEARCHES:
        of_search = [replay for replay in replays if replay.search == search]
        if not of_search:
            continue
        times = [replay.good_from(within) * minute for replay in of_search]
        medians[search] = median(times)
        never = sum(np.isinf(times)) / len(of_search)
        regrets = [
            fmean(replay.regret_at(trials * share) for replay in of_search) for share in (0.25, 0.5, 1.0)
        ]
        cells = [f"{100 * regret:.1f} %" for regret in regrets]
        ends = [medians[search], sorted(times)[int(0.9 * (len(times) - 1))]]
        said = [f"{end:.1f}" if np.isfinite(end) else "never" for end in ends]
        counts = f"{len(of_search)} | {said[0]} | {said[1]} | {100 * never:.0f} %"
        yield f"| {search} | {counts} | {' | '.join(cells)} |"
    if set(medians) == set(SEARCHES):
        yield (
            f"\nours / random {medians['ours'] / medians['random']:.2f}, ours / tpe "
            f"{medians['ours'] / medians['tpe']:.2f} (medians)"
        )


if __name__ == "__main__":
    main()
