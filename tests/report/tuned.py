"""A made tuning, and what its page is told besides its facts and its answer."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from bench.tune.table import tuned
from tests.analysis.tuning.synthetic import COMPRESSION, DELAY, SIZE, flat, peaked, plan_of, synthetic
from walproof.advise.tune.crashes import CrashCheck
from walproof.advise.tune.judge import RecordedJudge
from walproof.advise.tune.space import NotMoved
from walproof.analysis.tuning.search import TuneSearch
from walproof.facts.tuning import Candidate, Limit, TuningFacts
from walproof.report.tune.terminal import print_tuning
from walproof.report.tune.view import TuneView, TuningContext
from walproof.settings.change import Before

FACTORS = (COMPRESSION, SIZE, DELAY)
EVIL = "<script>alert(1)</script>"


def asked_of(facts: TuningFacts) -> TuningContext:
    """Two crashes, of which one took longer than predicted; the load's name is markup."""
    return TuningContext(
        name="tune-shop-1",
        load=EVIL,
        install="15.18",
        version_num=150018,
        device="flush=1.4ms",
        before={"max_wal_size": Before("2GB", False, False)},
        not_moved=(NotMoved("synchronous_commit", "off", Limit.MAY_LOSE, "more than none"),),
        left_out=("port: parameter is set by walproof itself",),
        crashes=tuple(CrashCheck(n, 5e8, s, (2.0, 3.0, 6.0), None) for n, s in ((1, 4.0), (2, 9.0))),
        limits=(("flush", "commits wait for the WAL flush in 70 % of samples"),),
        runs=tuple(f"run-{step.number}" for step in facts.steps),
        seconds=tuple(20.0 for _ in facts.steps),
        notes=("Costs are the shipped ones.",),
        at=1_795_000_000.0,
        command="walproof tune --load shop.toml",
    )  # fmt: skip


def facts_of(own_judge: RecordedJudge, *, is_flat: bool, own: Candidate | None = None) -> TuningFacts:
    """The end of a tuning of FACTORS, which gain as `peaked` says, or nothing at all."""

    def log(values: object) -> float:
        return peaked({"checkpoint_completion_target": "0.9", **values})  # type: ignore[dict-item]

    table = synthetic(FACTORS, flat if is_flat else log, noise=0.01)
    plan = plan_of(FACTORS, trials=150, seed=3, own=own)
    *_, last = tuned(table, plan, TuneSearch(own_judge))
    return last


def terminal_of(view: TuneView) -> str:
    """What the terminal shows, 100 columns wide."""
    console = Console(width=100, record=True, file=StringIO())
    print_tuning(view, console)
    return console.export_text()
