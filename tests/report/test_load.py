"""The report of loads, and the script that comes of them, from made facts."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from tests.report.facts import make_facts
from tests.schemas import assert_valid
from walproof.advise.loading import LoadAdvice, StepGain
from walproof.analysis.effect import Conclusion
from walproof.analysis.interval import Interval
from walproof.facts import Load, LoadMethod, Reference, Run, Trial, TrialState, Variant
from walproof.report.blocks import Table
from walproof.report.cells import Cells
from walproof.report.html import to_html
from walproof.report.json import to_json
from walproof.report.kinds.loading.advice_json import load_json
from walproof.report.kinds.loading.curve import load_curves
from walproof.report.kinds.loading.script import Recipe, load_script
from walproof.report.markdown import to_markdown
from walproof.report.view import build_view
from walproof.settings.durability import DurabilityClass

VARIANTS = (
    Variant("COPY", {}),
    Variant("COPY, 10", {}, conditions=LoadMethod(batch_rows=10)),
    Variant("COPY, 100", {}, conditions=LoadMethod(batch_rows=100)),
    Variant("COPY, 1000", {}, conditions=LoadMethod(batch_rows=1000)),
    Variant("2 sessions", {}, conditions=LoadMethod(sessions=2)),
    Variant(
        "UNLOGGED", {}, durability=DurabilityClass.TABLE, conditions=LoadMethod(steps=("unlogged",))
    ),
    Variant(
        "async", {"synchronous_commit": "off"}, durability=DurabilityClass.LAST_COMMITS,
        conditions=LoadMethod("insert", 1, rows_most=100),
    ),
)  # fmt: skip
RATES = (1000.0, 300.0, 980.0, 1010.0, 1700.0, 1500.0, 20.0)


def load_facts() -> tuple[Run, tuple[Trial, ...]]:
    facts = make_facts()
    plan = replace(
        facts.run.plan, kind=Load("t", "CREATE TABLE t (x int)", 1000, crash=True), variants=VARIANTS,
        baseline="COPY", workloads=facts.run.plan.workloads[:1], installs=facts.run.plan.installs[:1],
        references=(Reference("COPY", None, metrics={"finished_rows_per_s": 5000.0}),),
    )  # fmt: skip
    trials: list[Trial] = []
    for round_, wobble in enumerate((0.99, 1.0, 1.02), start=1):
        for (install, workload, name), rate in zip(plan.cells, RATES, strict=True):
            metrics = {
                "rows": 1000.0, "rows_per_s": rate * wobble, "complete_rows_per_s": rate * wobble / 2,
                "finished_rows_per_s": rate * wobble / 1.5, "finished_wal_bytes_per_row": 291.0,
                "wal_bytes_per_row": 291.0, "complete_wal_bytes_per_row": 400.0, "client_busy": 0.95,
                "server_busy": 0.5, "load_s": 1.0, "finish_s": 0.5, "first_read_s": 0.1, "vacuum_s": 0.4,
            }  # fmt: skip
            if round_ == 1:
                metrics |= {"crash_rows_share": 0.5 if name == "async" else 0.0}
                metrics |= {"crash_lacks": 1.0 if name == "UNLOGGED" else 0.0}
                metrics |= {"cut_images": 3.0, "cut_broken": 1.0 if name == "UNLOGGED" else 0.0}
                metrics |= {"cut_rows_share_min": 0.0, "cut_lacks_max": 0.0}
                metrics |= {"cut_rows_share_max": 0.5 if name == "async" else 0.0}
                metrics |= {"cut_lost_rows_max": 30.0 if name == "async" else 0.0}
            number = len(trials) + 1
            trials.append(
                Trial(
                    number, round_, install, workload, name, TrialState.DONE, 0.0, 1.0, 0.0, 1.0, metrics, {}
                )
            )
    return replace(facts.run, plan=plan), tuple(trials)


def test_the_report_says_who_was_busy_what_was_put_off_and_what_a_crash_left() -> None:
    run, trials = load_facts()
    view = build_view(run, trials)
    said = " ".join(sentence for answer in view.answers for sentence in answer.sentences)
    assert "2 sessions completes 1.70x" in said
    assert "7 methods of 7 are bound by the client" in said
    text = to_markdown(view).replace("\\", "")
    assert "partial: 50 % of the rows" in text
    assert "empty; 1 part of its definition to put right" in text
    assert "| UNLOGGED | ▲ may lose table | ● none | empty; 1 part" in text
    assert "| empty; 1 of 3 images cannot be read |" in text
    assert "| partial: 0 % to 50 % of the rows; up to 30 acknowledged rows lost |" in text
    assert "Published and here" in text
    assert "5000" in text
    assert json.loads(to_json(view))["analysis"]["metric"] == "complete_rows_per_s"
    page = to_html(view)
    assert page.count("<svg") >= 2
    assert "How large need a batch be" in page


def test_the_range_ends_at_the_baseline_where_nobody_is_shown_to_be_faster() -> None:
    """It named a method whose interval holds 1 as the top."""
    run, trials = load_facts()
    (answer,) = build_view(run, trials).answers
    assert answer.sentences[0] == "From 10.0 complete rows/s (async) to 850 (2 sessions)."
    swings = {"2 sessions": (0.5, 1.0, 2.0), "UNLOGGED": (2.0, 0.4, 1.1), "COPY, 1000": (2.0, 1.0, 0.5)}
    unsure = [
        replace(t, metrics={**t.metrics, "complete_rows_per_s": 600 * swings[t.variant][t.round - 1]})
        if t.variant in swings
        else t
        for t in trials
    ]
    (answer,) = build_view(run, unsure).answers
    assert answer.sentences[0] == "From 10.0 complete rows/s (async) to 500 (COPY)."
    alike = [t for t in unsure if t.variant in ("COPY", *swings)]
    (answer,) = build_view(run, alike).answers
    assert answer.sentences[0] == (
        "500 complete rows/s (COPY); no other method is shown to be slower or faster."
    )


def test_curves_hold_variants_that_differ_in_one_number() -> None:
    run, trials = load_facts()
    data = load_curves(Cells(run.plan, trials))
    assert data is not None
    found = {curve.swept: [point.at for point in curve.points] for curve in data.curves}
    assert found == {"sessions": [1, 2], "rows a batch": [10, 100, 1000]}
    assert "knee at 100, more gains nothing" in data.describe()
    assert "knee at 2, more was not tried" in data.describe()


def test_the_script_names_gains_losses_settings_and_their_undo() -> None:
    advice = LoadAdvice(
        "18.3",
        replace(VARIANTS[0], settings={"wal_level": "minimal"}),
        (StepGain("late indexes", 2.0, None, Conclusion.HIGHER),),
        (
            StepGain("triggers off", 1.3, None, Conclusion.TOO_FEW),
            StepGain("truncate", None, None, Conclusion.TOO_FEW),
        ),
        True,
        (StepGain("COPY FREEZE", 1.0, None, Conclusion.NO_DIFFERENCE),),
        (),
        (),
    )
    recipe = Recipe(
        "t", "x", ("DROP INDEX i",), (), ("CREATE INDEX i ON t (x)",), False, ("CREATE INDEX i ON t (x)",)
    )
    text = load_script(advice, recipe, [("wal_level", "minimal")], "my.csv")
    order = [
        "SET wal_level", "restart the server", "DROP INDEX i;", "\\copy t (x) FROM 'my.csv'",
        "CREATE INDEX i", "VACUUM (ANALYZE) t;", "\n:undo\n", "-- CREATE INDEX i",
    ]  # fmt: skip
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "late indexes: 2.00x, a gain" in text
    assert "OR EXISTS (SELECT FROM pg_stat_replication)" in text, "its standbys would end"
    prompt = "\\prompt 'It ends standbys, and point-in-time recovery across the load. Restart the server now"
    before, _, after = text.partition("\n\\c\n")
    assert prompt in before
    # psql forgets what the session had, and checks that came before it are of another time.
    assert after.startswith("\\encoding UTF8\n")
    order = [
        "set_config('search_path', :'search_path_before', false)", "the table is not empty",
        "the name leads to a table of another schema", "\\copy t (x)",
    ]  # fmt: skip
    places = [after.index(words) for words in order]
    assert places == sorted(places)
    buffers = load_script(advice, recipe, [("wal_buffers", "64MB")], "my.csv")
    assert "\\prompt 'Restart the server now" in buffers, "it ends no standby"
    assert text.index("Not decided, kept") < text.index("triggers off: 1.30x, one round only")
    assert "truncate: no finished trials\n" in text, "its variant failed in every round"
    assert text.index("gained nothing") < text.index("COPY FREEZE: 1.00x, no measurable difference")


def test_the_script_says_what_pg_wal_needs_and_what_fsync_off_leaves() -> None:
    every = Variant("every step", {}, conditions=LoadMethod())
    advice = LoadAdvice("18.3", every, (), (), True, (), (), (), rows=1_000_000, wal_bytes_per_row=600.0)
    recipe = Recipe("t", "x", (), (), (), False, ())
    sized = load_script(advice, recipe, [("max_wal_size", "2GB"), ("maintenance_work_mem", "512MB")], None)
    assert "-- 1,000,000 rows wrote 572 MB of WAL; more rows write more." in sized
    assert "\n  SET maintenance_work_mem = '512MB';\n" in sized
    assert "IN ('max_wal_size')" in sized
    assert "CHECKPOINT;" not in sized
    risky = load_script(advice, recipe, [("fsync", "off"), ("full_page_writes", "off")], None)
    order = ["\n:undo\n", "\nSELECT pg_sleep(2);\n", "\n\\prompt 'Run sync on the server", "\nCHECKPOINT;\n"]
    places = [risky.index(words) for words in order]
    assert places == sorted(places)
    assert "prompt" not in load_script(advice, recipe, [("full_page_writes", "off")], None)
    assert "undo" not in load_script(advice, recipe, [("maintenance_work_mem", "512MB")], None)


def test_the_script_says_which_keys_were_not_checked() -> None:
    every = Variant("every step", {}, conditions=LoadMethod())
    advice = LoadAdvice("18.3", every, (), (), True, (), (), ())
    recipe = Recipe("t", "x", (), (), (), False, (), parents=("people", "staff"))
    said = "-- Not checked: whether every key that the file names is in people and staff.\n"
    assert said in load_script(advice, recipe, [], "my.csv")
    assert "Not checked" not in load_script(advice, recipe, [], None)
    assert "Not checked" not in load_script(advice, replace(recipe, parents=()), [], "my.csv")


def test_the_json_describes_the_recipe_and_names_what_was_measured() -> None:
    """It said "every step" beside a script without any of them, and was surer than the script."""
    every = Variant("every step", {}, conditions=LoadMethod(steps=("truncate", "freeze", "late indexes")))
    wide = StepGain("triggers off", 0.9, Interval(0.5, 1.6, 0.95, "t"), Conclusion.NO_DIFFERENCE)
    nothing = StepGain("COPY FREEZE", 1.0, Interval(0.97, 1.02, 0.95, "t"), Conclusion.NO_DIFFERENCE)
    advice = LoadAdvice("18.3", every, (), (wide,), True, (nothing,), (), ())
    recipe = Recipe("t", "x", (), (), (), False, (), steps=("late indexes",))
    told = json.loads(load_json("run", advice, recipe, (), None))
    assert told["variant"] == "every step without COPY FREEZE"
    assert told["load"]["steps"] == ["late indexes"]
    assert told["measured"]["variant"] == "every step"
    assert told["measured"]["load"]["steps"] == ["truncate", "freeze", "late indexes"]
    assert told["steps"]["dropped"][0]["conclusion"] == "no measurable difference"
    assert told["steps"]["undecided"][0]["conclusion"] == "not known yet"
    assert "triggers off: 0.50x to 1.60x, not known yet" in told["script"]
    unknown = replace(wide, ratio=1.0, interval=Interval(0.0, math.inf, 0.95, "t"))
    told = json.loads(load_json("run", replace(advice, undecided=(unknown,)), recipe, (), None))
    assert "triggers off: not known yet\n" in told["script"]
    assert_valid("load-advice", told)


def test_a_table_that_is_unlogged_is_not_called_durable() -> None:
    every = Variant("every step", {}, conditions=LoadMethod())
    advice = LoadAdvice("18.3", every, (), (), True, (), (), ())
    recipe = Recipe("t", "x", (), (), (), False, ())
    assert "what is committed is durable" in load_script(advice, recipe, [], None)
    told = json.loads(load_json("run", advice, replace(recipe, is_unlogged=True), (), None))
    assert told["durability_class"] == "may lose table"
    said = "-- During the load: may lose table; after it a crash empties the table, which is unlogged.\n"
    assert said in told["script"]


def test_what_is_said_to_be_higher_is_what_was_compared() -> None:
    """It said "throughput is" of whatever a kind compares: of the CPU of a replay, too."""
    (certainty,) = [section for section in build_view(*load_facts()).sections if section.id == "certainty"]
    (known,) = [
        block for block in certainty.blocks if isinstance(block, Table) and "ratio is known" in block.title
    ]
    assert known.columns[-1].title == "complete rows/s is"
