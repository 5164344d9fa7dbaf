"""Study files of the benches, and the trials of their newest run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from walproof.facts import Trial
from walproof.facts.store import Store

RESULTS = "walproof.sqlite"


def study_text(
    name: str,
    title: str,
    *,
    base: Mapping[str, str],
    load: Mapping[str, Any],
    variants: Mapping[str, Mapping[str, str]],
    rounds: int,
    seed: int = 1,
) -> str:
    """A study of fresh servers as TOML; the first variant is the baseline."""
    quoted = json.dumps

    def lines() -> Iterator[str]:
        yield from (f"name = {quoted(name)}", f"title = {quoted(title)}", "[base]")
        yield from (f"{key} = {quoted(value)}" for key, value in base.items())
        yield from ("[design]", f"rounds = {rounds}", f"seed = {seed}", 'design = "fresh"', "[[workload]]")
        yield from (f"{key} = {quoted(value)}" for key, value in load.items())
        for variant, conf in variants.items():
            settings = ", ".join(f"{key} = {quoted(value)}" for key, value in conf.items())
            yield from ("[[variant]]", f"name = {quoted(variant)}", f"settings = {{ {settings} }}")

    return "\n".join(lines()) + "\n"


def run_command(study: Path, case: Mapping[str, Any], out: Path) -> list[str]:
    """The command that measures the study on the case's disk and version."""
    device = ["--device", case["device"]] if case.get("device") else []
    pg = ["--pg", case["pg"]] if case.get("pg") else []
    return [*walproof(), "run", str(study), *pg, *device, "--out", str(out)]


def walproof() -> list[str]:
    """How a command of walproof begins."""
    return [sys.executable, "-P", "-m", "walproof"]


def measured(study: Path, case: Mapping[str, Any], out: Path, trials: int) -> tuple[Trial, ...]:
    """The trials of a study, once there are so many; it is carried on with if there are fewer."""
    if len(newest(out, study.stem)) < trials:
        subprocess.run(run_command(study, case, out), check=True)
    return newest(out, study.stem)


def newest(out: Path, name: str) -> tuple[Trial, ...]:
    """Trials of the newest run of the study; empty if there is no run."""
    if not (out / RESULTS).exists():
        return ()
    with closing(Store(out / RESULTS)) as store:
        runs = [run for run in store.runs() if run.plan.study == name]
        return store.trials(runs[-1].id) if runs else ()
