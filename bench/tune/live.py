"""A live tuning of a case, what it advises deployed on fresh clusters, and crashed.

    PYTHONPATH=. python bench/tune/live.py bench/tune/cases/commits-slow.toml --out FOLDER [--summary]

1. ``walproof tune`` with the case's promises and budget (45 min).
2. Deployed: the defaults, the advised conf, that conf without each of its lines and pgtune's, each on so many
   fresh clusters (``--rounds``, 20), in random order within a round, with seeds that the tuning never used.
   Is one start inside the printed prediction interval, does each line give what it is kept for, is pgtune's
   conf better?
3. Crashed (``--crashes``, 40), at four distances from the beginning: is every server back within the promised
   time, and was pg_wal, looked at twice a second, never larger than promised?

What is there is not done again; the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

from bench.tune.studies import RESULTS, measured, newest, study_text, walproof
from walproof.analysis.tuning.lines import prediction_interval
from walproof.analysis.tuning.values import Values, compare
from walproof.cli.tune_progress import TuningProgress
from walproof.facts import Plan, Trial
from walproof.facts.store import Store
from walproof.facts.tuning import DEFAULT, Candidate
from walproof.facts.tuning_answers import candidate_name
from walproof.facts.tuning_journal import Journal, JournalFile
from walproof.lab.load_file import read_load
from walproof.lab.session import execute
from walproof.lab.tune.load import PlanOrder, TuningLoad, plan_of
from walproof.postgres.install import find
from walproof.units import parse_bytes, parse_duration_s

CRASH_SECONDS = (15, 30, 45, 60)
"""Lengths of the load before a crash."""
SEED = 1_000_003
"""Of the deployments; a tuning's own seeds are smaller."""
MB = 2**20


def main() -> None:
    """Do what is missing, then say what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("case", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder of the tuning and the studies")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--crashes", type=int, default=40)
    parser.add_argument("--summary", action="store_true", help="only say what there is so far")
    given = parser.parse_args()
    case = tomllib.loads(given.case.read_text(encoding="utf-8"))
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.summary:
        tune(given.case.stem, case, given.out)
    journal, answer = tuning(given.case.stem, given.out)
    print("\n".join(said(answer)))
    confs = deployed_confs(journal, answer)
    deploy = deployment(given.case.stem, case, journal, confs, given.rounds, given.out)
    trials = (
        newest(given.out, deploy.stem)
        if given.summary
        else measured(deploy, case, given.out, given.rounds * len(confs))
    )
    print("\n".join(deployed(answer, confs, trials)))
    crashes = [crashed(given.case.stem, case, journal, answer, seconds, given) for seconds in CRASH_SECONDS]
    print("\n".join(promised(case, answer, list(chain.from_iterable(crashes)), given.out)))


def tune(name: str, case: Mapping[str, Any], out: Path) -> None:
    """Carry out the tuning, or go on with it."""
    load = out / f"{name}.toml"
    tables = {"base": case["base"]} if "base" in case else {}
    tables["[workload]"] = case["load"]
    lines = [
        line
        for table, keys in tables.items()
        for line in (f"[{table}]", *(f"{key} = {json.dumps(value)}" for key, value in keys.items()))
    ]
    load.write_text("\n".join(lines) + "\n", encoding="utf-8")
    promises = [part for option, value in case["promises"].items() for part in (f"--{option}", value)]
    command = [*walproof(), "tune", "--load", str(load), *promises, "--budget", case["budget"]]
    for option in ("device", "pg"):
        command += [f"--{option}", case[option]] if case.get(option) else []
    subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)


def tuning(name: str, out: Path) -> tuple[Journal, dict[str, Any]]:
    """The finished tuning and its answer."""
    (folder,) = (out / "tunings").glob(f"tune-{name}-*")
    journal = JournalFile(folder).read()
    if journal is None or not journal.finished:
        raise SystemExit(f"{folder}: the tuning is not finished")
    return journal, json.loads((folder / "tuning-answer.json").read_text(encoding="utf-8"))


def said(answer: Mapping[str, Any]) -> Iterator[str]:
    """What the tuning says."""
    yield f"advised: {written(answer['conf'])}"
    gain, expected = answer["gain"], answer["expected"]
    if gain:
        yield f"gain {gain['ratio']:.3f} ({gain['low']:.3f} to {gain['high']:.3f})"
    if expected:
        yield (
            f"one start: {expected['ratio']:.3f} ({expected['ratio_low']:.3f} to "
            f"{expected['ratio_high']:.3f}) of the defaults, {expected['value']:.0f} "
            f"({expected['value_low']:.0f} to {expected['value_high']:.0f}), from {expected['starts']} starts"
        )
    for line in answer["lines"]:
        gain = line["gain"]
        text = f"{gain['ratio']:.3f} ({gain['low']:.3f} to {gain['high']:.3f})" if gain else "not measured"
        place = "in" if line["in_conf"] else "out"
        yield f"  {line['setting']}={line['value']}: {line['verdict']}, {place}, {text}"


def written(conf: Mapping[str, str]) -> str:
    """A configuration as it is named in tables."""
    return candidate_name(Candidate.of(conf))


def deployed_confs(journal: Journal, answer: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Configurations by what they are."""
    advised: dict[str, str] = answer["conf"]
    confs: dict[str, dict[str, str]] = {"default": {}}
    if advised:
        confs["advised"] = dict(advised)
    if len(advised) > 1:
        for name in advised:
            confs[f"without {name}"] = {key: value for key, value in advised.items() if key != name}
    if answer["winner"] != advised:
        confs["winner"] = dict(answer["winner"])
    if journal.plan.starts:
        confs["pgtune"] = journal.plan.starts[-1].conf
    return confs


def deployment(
    name: str,
    case: Mapping[str, Any],
    journal: Journal,
    confs: Mapping[str, Mapping[str, str]],
    rounds: int,
    out: Path,
) -> Path:
    """The study file of the deployments."""
    study = out / f"{name}-deployed.toml"
    text = study_text(
        study.stem,
        f"Is the advised configuration what was said? {name}",
        base={**case.get("base", {}), **journal.plan.keep},
        load={**case["load"], "duration": case["window"]},
        variants=confs,
        rounds=rounds,
        seed=SEED,
    )
    study.write_text(text, encoding="utf-8")
    return study


def deployed(
    answer: Mapping[str, Any], confs: Mapping[str, Mapping[str, str]], trials: Sequence[Trial]
) -> Iterator[str]:
    """Starts inside the printed intervals, and the ratios of the configurations."""
    metric, sign = answer["objective"], 1 if answer["larger_is_better"] else -1
    by_name = {name: Candidate.of(conf) for name, conf in confs.items()}
    logs = {
        ((0, trial.round), by_name[trial.variant]): sign * log(value)
        for trial in trials
        if (value := trial.metrics.get(metric))
    }
    values = Values(logs)
    expected, advised = answer["expected"], by_name.get("advised")
    yield f"\ndeployed: {len(logs)} starts"
    if expected and advised is not None:
        ratios = list(values.ratios(advised, DEFAULT).values())
        starts = [exp(sign * logged) for (_, candidate), logged in logs.items() if candidate == advised]
        inside = sum(log(expected["ratio_low"]) <= ratio <= log(expected["ratio_high"]) for ratio in ratios)
        within = sum(expected["value_low"] <= start <= expected["value_high"] for start in starts)
        yield f"ratio to the defaults inside the prediction interval: {inside} of {len(ratios)}"
        yield f"{metric} inside it: {within} of {len(starts)} (median {median(starts):.1f})"
        yield f"below the defaults: {sum(ratio < 0 for ratio in ratios)} of {len(ratios)}"
        spread = prediction_interval(ratios)
        if spread is not None:
            yield f"one start by these: {exp(spread.low):.3f} to {exp(spread.high):.3f}"
    for first, second in ratio_pairs(by_name):
        (found,) = compare(values, [(by_name[first], by_name[second])])
        interval = found.interval()
        if found.mean is not None and interval is not None:
            yield f"  {first} / {second}: {exp(found.mean):.3f} ({interval.low:.3f} to {interval.high:.3f})"


def ratio_pairs(by_name: Mapping[str, Candidate]) -> Iterator[tuple[str, str]]:
    """What is compared: the advised conf with all others, else the others with the defaults."""
    first = "advised" if "advised" in by_name else "default"
    for name in by_name:
        if name != first:
            yield first, name


def crashed(
    name: str,
    case: Mapping[str, Any],
    journal: Journal,
    answer: Mapping[str, Any],
    seconds: int,
    given: argparse.Namespace,
) -> tuple[Trial, ...]:
    """The trials whose load is killed after so many seconds; the largest pg_wal is noted."""
    study, rounds = f"{name}-crashed-{seconds}", given.crashes // len(CRASH_SECONDS)
    if not given.summary and len(newest(given.out, study)) < rounds:
        folder = given.out / "servers"
        folder.mkdir(mode=0o755, exist_ok=True)
        tables, scripts = read_load(str(given.out / f"{name}.toml"))
        load = TuningLoad(name, tables, scripts, folder, find(case.get("pg")), case.get("device"))
        order = PlanOrder(
            study=study,
            title=f"Are the promises kept in a crash after {seconds} s?",
            candidates=(Candidate.of(answer["conf"]),),
            keep=journal.plan.keep,
            rounds=rounds,
            seed=SEED + seconds,
            crash=True,
            duration_s=float(seconds),
        )
        largest = crash(plan_of(load, order), given.out, folder)
        with pg_wal_file(given.out).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"study": study, "pg_wal_bytes": largest}) + "\n")
    return newest(given.out, study)


def crash(plan: Plan, out: Path, servers: Path) -> int:
    """Run a study of crashes, or go on with it; the largest size of a pg_wal, looked at twice a second.

    The server runs on the emulated disk, as in a tuning, and a copy on the real one is recovered.
    """
    largest, is_over = 0, threading.Event()

    def look() -> None:
        nonlocal largest
        while not is_over.wait(0.5):
            largest = max([largest, *map(pg_wal_bytes, servers.glob("**/pg_wal"))])

    watching = threading.Thread(target=look)
    watching.start()
    try:
        with closing(Store(out / RESULTS)) as store:
            execute(
                plan, store, ("bench/tune/live.py", plan.study),
                lambda number, _: plan.round_cells(number) if number <= plan.rounds else (),
                lambda _: False, TuningProgress().trials(plan), locks=out,
            )  # fmt: skip
    finally:
        is_over.set()
        watching.join()
    return largest


def pg_wal_file(out: Path) -> Path:
    """Where the largest sizes are noted."""
    return out / "pg-wal.jsonl"


def pg_wal_bytes(folder: Path) -> int:
    """Size of a pg_wal whose files come and go."""
    total = 0
    try:
        for path in folder.iterdir():
            if path.is_file():
                total += path.stat().st_size
    except FileNotFoundError:
        return total
    return total


def promised(
    case: Mapping[str, Any], answer: Mapping[str, Any], trials: Sequence[Trial], out: Path
) -> Iterator[str]:
    """Times away and sizes of pg_wal beside what was promised and predicted."""
    distances = [value / MB for trial in trials if (value := trial.metrics.get("recovery_wal_bytes"))]
    times = [value for trial in trials if (value := trial.metrics.get("recovery_s")) is not None]
    yield f"\ncrashed: {len(times)} of {len(trials)} have a time away"
    predicted = answer["prediction"]
    target, disk = case["promises"].get("recovery-target"), case["promises"].get("wal-disk")
    if times:
        high = predicted["recovery_high_s"]
        yield (
            f"away {min(times):.2f} to {max(times):.2f} s after {min(distances):.0f} to "
            f"{max(distances):.0f} MB; promised {target}: broken by "
            f"{sum(time > parse_duration_s(target) for time in times) if target else 0}; predicted at most "
            f"{high:.2f} s: exceeded by {sum(time > high for time in times)}"
        )
    path = pg_wal_file(out)
    sizes = (
        [json.loads(line)["pg_wal_bytes"] for line in path.read_text().splitlines()] if path.exists() else []
    )
    if sizes:
        yield (
            f"pg_wal at most {max(sizes) / MB:.0f} MB; promised {disk}: broken by "
            f"{sum(size > parse_bytes(disk) for size in sizes) if disk else 0} of {len(sizes)} studies; "
            f"predicted {predicted['pg_wal_bytes'] / MB:.0f} MB"
        )


if __name__ == "__main__":
    main()
