"""Reports of a live stream: rows beside the published speed, who kept up, and where the lag was."""

from __future__ import annotations

from dataclasses import replace

from tests.report.facts import make_facts
from walproof.facts import Reference, Run, Series, Streaming, StreamingConditions, Trial, TrialState, Variant
from walproof.report.blocks import Table
from walproof.report.html import to_html
from walproof.report.json import to_json
from walproof.report.kinds.streaming.lag import LAG_SERIES, LagData
from walproof.report.layout import ReportView
from walproof.report.markdown import to_markdown
from walproof.report.view import build_view

MB = 1_000_000.0
WOBBLE = (0.99, 1.0, 1.01, 1.02)


def streaming_facts(rows_on: float, us_on: float, lag_s_on: float) -> tuple[Run, list[Trial], list[Series]]:
    """``default`` keeps up at 100,000 rows/s and 2 us a row; ``compressed`` as told."""
    facts = make_facts()
    plan = replace(
        facts.run.plan,
        kind=Streaming(1000, 500),
        workloads=facts.run.plan.workloads[:1],
        variants=(Variant("default", {}), Variant("compressed", {"wal_compression": "on"})),
        baseline="default",
        references=(
            Reference("default", None, metrics={"startup_core_share": 1.0, "wal_bytes_per_s": 720e6}),
            Reference("compressed", None, metrics={"startup_core_share": 0.62, "wal_bytes_per_s": 400e6}),
            Reference("gone", None, metrics={"startup_core_share": 0.5, "wal_bytes_per_s": 1e6}),
        ),
        reference_source="a bench",
    )
    trials: list[Trial] = []
    series: list[Series] = []
    for round, wobble in enumerate(WOBBLE, start=1):
        for cell in plan.cells:
            is_on = cell[2] == "compressed"
            rows, us = (rows_on, us_on) if is_on else (100_000.0, 2.0)
            us *= wobble * (1 + 0.001 * len(trials))
            number = len(trials) + 1
            metrics = {
                "rows_per_s": rows, "wal_bytes_per_s": rows * 250, "wal_bytes_per_row": 250.0,
                "startup_us_per_row": us, "startup_core_share": rows * us / 1e6, "startup_cpu_s": us,
                "run_queue_s": 0.0, "replay_mb_per_cpu_s": 250 / us, "fpi_per_row": 0.02,
                "lag_bytes_max": 8 * MB, "replay_lag_s_end": lag_s_on if is_on else 0.0,
                "replay_lag_s_max": 1.5, "catch_up_s": 0.5,
            }  # fmt: skip
            trials.append(Trial(number, round, *cell, TrialState.DONE, 0.0, 9.0, 0.0, 4.0, metrics, {}))
            for place, name in enumerate(LAG_SERIES):
                most = round * MB if place == len(LAG_SERIES) - 1 else 0.0
                series.append(Series(number, name, (0.0, 2.0, 4.5), (0.0, most, 0.0)))
    return replace(facts.run, plan=plan), trials, series


def _said(view: ReportView) -> str:
    return " ".join(sentence for answer in view.answers for sentence in answer.sentences)


def _table(view: ReportView, section: str) -> Table:
    (found,) = [found for found in view.sections if found.id == section]
    return next(block for block in found.blocks if isinstance(block, Table))


def test_a_slower_primary_does_not_pass_for_a_faster_replica() -> None:
    said = _said(build_view(*streaming_facts(rows_on=50_000.0, us_on=2.4, lag_s_on=0.0)))
    assert "compressed seems to relieve the standby, 12 % of a core instead of 20 %" in said
    assert "its primary wrote 0.50x the rows, and a row took 1.2" in said
    assert "Every standby kept up in every trial" in said


def test_a_standby_whose_rows_are_cheaper_is_not_called_a_pretender() -> None:
    said = _said(build_view(*streaming_facts(rows_on=50_000.0, us_on=1.0, lag_s_on=0.0)))
    assert "seems to relieve" not in said
    assert "seems to relieve" not in _said(
        build_view(*streaming_facts(rows_on=100_000.0, us_on=1.0, lag_s_on=0.0))
    )


def test_who_fell_behind_is_named_and_counted() -> None:
    view = build_view(*streaming_facts(rows_on=50_000.0, us_on=2.4, lag_s_on=3.0))
    assert "With compressed it was 3.00 s behind when the load ended; it had caught up" in _said(view)
    rows = {row[0].text: [cell.text for cell in row] for row in _table(view, "lag").rows}
    assert (rows["default"][-1], rows["compressed"][-1]) == ("4 of 4", "0 of 4")


def test_a_trial_that_failed_did_not_keep_up() -> None:
    """A standby too far behind to catch up in time makes its trial fail: those that finished are not all."""
    run, trials, series = streaming_facts(50_000.0, 2.4, 0.0)
    unknown = "4 trials failed ({}): whether the standby kept up there is not known."
    for gone, said_first in (("compressed", "With default the primary wrote"), ("default", "Every standby")):
        left = [
            replace(trial, state=TrialState.FAILED, reason="too late", metrics={}, window_s=None)
            if trial.variant == gone
            else trial
            for trial in trials
        ]
        said = _said(build_view(run, left, series))
        assert said_first in said
        assert "Every standby kept up in every trial that finished; the largest lag was" in said
        assert unknown.format(gone) in said


def test_who_never_catches_up_is_told_with_rates_and_place() -> None:
    """At these rates; when the load has ended it does."""
    run, trials, series = streaming_facts(rows_on=100_000.0, us_on=2.4, lag_s_on=3.0)
    for replayed, never in ((5 * MB, True), (19.5 * MB, False)):
        rates = {
            "wal_made_bytes_per_s": 20 * MB, "wal_replayed_bytes_per_s": replayed, "catch_up_s": 11.5,
            "lag_bytes_end.network": 40 * 2.0**20, "lag_bytes_end.replay": 10 * 2.0**20,
        }  # fmt: skip
        changed = [
            replace(trial, metrics={**trial.metrics, **rates}) if trial.variant == "compressed" else trial
            for trial in trials
        ]
        view = build_view(run, changed, series)
        said = _said(view)
        assert "B/s were replayed of 19.1 MB/s that were made: it" in said
        assert ("never catches up at these rates" in said) == never
        assert "50.0 MB, 80 % of that not sent; it had caught up 11.5 s later" in said
        rows = {row[0].text: [cell.text for cell in row] for row in _table(view, "lag").rows}
        assert rows["compressed"][6] == ("14.3 MB/s" if never else "488 kB/s")


def test_a_standby_that_is_held_back_is_not_called_relieved() -> None:
    run, trials, series = streaming_facts(rows_on=50_000.0, us_on=2.4, lag_s_on=0.0)
    held = tuple(
        replace(variant, conditions=StreamingConditions(replay_cpu_share=0.05))
        for variant in run.plan.variants
    )
    plan = replace(run.plan, variants=held)
    view = build_view(replace(run, plan=plan), trials, series)
    assert "seems to relieve" not in _said(view)
    variants = next(
        block
        for section in view.sections
        for block in section.blocks
        if isinstance(block, Table) and block.title == "Variants"
    )
    assert [row[2].text for row in variants.rows] == ["replay_cpu=5%", "wal_compression=on, replay_cpu=5%"]


def test_a_rate_has_one_unit_and_another_only_beside_what_was_published() -> None:
    """A page had 20.0 MB/s in one table and 19.1 MB/s of the same WAL in the next."""
    view = build_view(*streaming_facts(rows_on=80_000.0, us_on=2.4, lag_s_on=0.0))
    table = _table(view, "results")
    place = [column.title for column in table.columns].index("WAL rate")
    assert [row[place].text for row in table.rows] == ["23.8 MB/s", "19.1 MB/s"]
    published = _table(view, "published")
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in published.rows}
    assert rows["WAL rate, MB/s"] == ["720", "400", "25.0", "20.0"]
    assert "MB and GB are of 10^6 and 10^9 bytes." in (published.note or "")


def test_the_published_table_has_what_it_leaves_out() -> None:
    """720 MB/s over a full core and 400 over 0.62 of one; no rows were published."""
    table = _table(build_view(*streaming_facts(50_000.0, 2.4, 0.0)), "published")
    assert [column.title for column in table.columns[1:]] == [
        "published: default", "published: compressed", "here: default", "here: compressed",
    ]  # fmt: skip
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert rows["WAL rate over startup, MB/CPU s"][:2] == ["720", "645"]
    assert rows["rows/s"] == ["-", "-", "100000", "50000"]


def test_lag_is_drawn_by_the_trial_in_the_middle() -> None:
    view = build_view(*streaming_facts(50_000.0, 2.4, 0.0))
    (section,) = [section for section in view.sections if section.id == "lag"]
    figure = section.blocks[0]
    assert not isinstance(figure, Table)
    data = figure.data  # type: ignore[union-attr]
    assert isinstance(data, LagData)
    assert [(panel.variant, panel.trial, panel.n) for panel in data.panels] == [
        ("default", 3, 4), ("compressed", 4, 4),
    ]  # fmt: skip
    assert data.panels[0].most_bytes == 2 * MB
    assert "most of it not replayed; the load ended after 4.0 s, all was replayed after 4.5 s" in figure.alt  # type: ignore[union-attr]
    assert "seconds since the load began" in to_html(view)
    assert "Published and here" in to_markdown(view)
    assert '"metric": "startup_us_per_row"' in to_json(view)


def test_without_samples_there_is_no_chart() -> None:
    run, trials, _ = streaming_facts(50_000.0, 2.4, 0.0)
    (section,) = [section for section in build_view(run, trials).sections if section.id == "lag"]
    assert all(isinstance(block, Table) for block in section.blocks)
