"""Predictions from simulated servers that are written down here: rates, spans, cliffs, limits, reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walproof.analysis.whatif import Question, Study, study
from walproof.analysis.whatif_errors import cycle_error, image_error, spreads
from walproof.analysis.whatif_reasons import prediction_reasons, recording_reasons
from walproof.units import Lsn
from walproof.wal.whatif import (
    Agreement,
    Cycles,
    ImageSample,
    MethodSample,
    SimulatedRun,
    SourceFacts,
    Target,
    WhatIf,
)

HOUR_US = 3_600_000_000
GB = 1 << 30
PRESENT = Target()
AGREES = Agreement(1000, 9000, 0, 0, 1000, 1000)


def outcome(target: Target) -> SimulatedRun:
    """1 GB an hour without images; those take 8 GB at 1 GB of max_wal_size, and less the larger it is."""
    size = (target.max_wal_size_mb or 1 << 30) / 1024 * (1.5 if target.late_segments else 1)
    spacing = size / 1.9 * GB
    images = 8 / size**2 if target.full_page_writes else 0.0
    wal = (1 + images) * GB
    count = int(wal / spacing)
    cycles = Cycles(0, 0, 0, 0, None, 0)
    if count:
        share = count * spacing / wal
        late = count if size < 0.1 else 0
        wobble = 1 + 0.01 * target.phase
        cycles = Cycles(
            count, int(count * spacing * wobble), int(1000 * images * share), int(share * GB), 3600 * share,
            late, 0.002 / count**0.5 if count > 1 else None,
        )  # fmt: skip
    return SimulatedRun(
        wal_bytes=int(wal), base_bytes=GB, images=int(1000 * images), image_bytes=int(images * GB),
        first_images=int(100 * images), first_image_bytes=int(images * GB / 10), guessed_images=0,
        sample_error_bytes=0.0,
        by_size=count, by_time=0, cycles=cycles, distance_mean=spacing, distance_most=int(1.9 * spacing),
        crash_offset=0, pg_wal_most=int(2 * spacing),
    )  # fmt: skip


def recorded(**changes: object) -> SourceFacts:
    facts = SourceFacts(
        records=1_000_000, record_bytes=GB, images=8000, image_bytes=8 * GB, hint_images=0,
        references=2_000_000, pages=50_000, held_pages=50_000,
        begun_before=0, first_time_us=0, last_time_us=HOUR_US,
        longest_silence_us=1000, checkpoints=(), has_hint_records=False, full_page_writes_off=False,
        has_backup=False, has_consistency_images=False, compression="off", agreement=AGREES,
        memory_bytes=400_000,
    )  # fmt: skip
    return replace(facts, **changes)  # type: ignore[arg-type]


def make(question: Question | None = None, facts: SourceFacts | None = None) -> Study:
    question = question or Question(PRESENT, is_present_known=True)
    targets = question.targets()
    sample = ImageSample(10, 80_000, {"pglz": MethodSample(40_000, 1_000_000)})
    found = WhatIf(
        version=18, system_identifier=7, segment_size=16 << 20, first_timeline=1, timeline=1,
        start=Lsn(0), end=Lsn(9 * GB),
        finish_reason=None, gaps=(), clock="transactions",
        recorded=facts or recorded(), sample=sample, targets=tuple(targets),
        outcomes=tuple(outcome(target) for target in targets),
    )  # fmt: skip
    return study(found, question)


def test_rates_are_those_of_whole_cycles() -> None:
    present = make().present
    # 9 GB in an hour, in 17 cycles; phases differ by up to 0.75 %, and the model by 2 %.
    assert present.wal_bytes == pytest.approx(9 * GB, rel=0.01)
    assert present.wal_span.low < 9 * GB < present.wal_span.high
    assert present.cycles == 17
    assert present.checkpoints == pytest.approx(17, rel=0.02)
    assert present.spacing_s == pytest.approx(3600 / 17.1, rel=0.02)


def test_a_steep_curve_widens_the_span() -> None:
    present = make().present
    assert present.elasticity is not None
    assert present.elasticity < -1.5
    assert present.wal_span.high > 1.15 * present.wal_bytes
    assert present.confidence == "medium"
    assert any("steep" in reason for reason in prediction_reasons(present))


def test_less_than_a_cycle_is_a_bracket() -> None:
    found = make()
    prediction = found.predictions[replace(PRESENT, max_wal_size_mb=65536)]
    assert not prediction.has_whole_cycles
    assert prediction.confidence == "low"
    assert any("upper bound" in reason for reason in prediction_reasons(prediction))
    assert prediction.wal_span.low < prediction.wal_bytes < prediction.wal_span.high


def test_a_restart_soon_after_the_beginning_is_no_cycle() -> None:
    """It ends a cycle of a moment at the first phase; the recording is longer, the size still untold."""
    target = replace(PRESENT, max_wal_size_mb=65536)
    moment = Cycles(1, GB // 10, 100, GB // 40, 0.17, 1)
    question = Question(PRESENT, is_present_known=True)
    known = make(question).found
    outcomes = tuple(
        replace(had, cycles=moment) if simulated == target else had
        for simulated, had in zip(known.targets, known.outcomes, strict=True)
    )
    found = study(replace(known, outcomes=outcomes), question).predictions[target]
    assert found == make(question).predictions[target]
    assert (found.cycles, found.confidence, found.spacing_s) == (0, "low", None)


@pytest.mark.parametrize(("count", "cold", "began", "cycles"), [(1, 0, 0, 0), (1, 0, 1, 0), (2, 1, 1, 1)])
def test_a_cycle_that_a_restart_ended_bounds_nothing(count: int, cold: int, began: int, cycles: int) -> None:
    """Whole is what the settings end, and with one such cycle the checkpoint after it need not be seen. With
    a phase, a checkpoint by size ends the rest of a cycle, so after it a restart ends a short one."""
    target = replace(PRESENT, max_wal_size_mb=65536, checkpoint_timeout_s=None)
    question = Question(PRESENT, is_present_known=True, asked=(target,))
    known = make(question).found
    outcomes = tuple(
        replace(
            had, cycles=Cycles(count, GB, 500, GB, 3600, 0), by_size=began if simulated.phase > 0 else cold,
            distance_most=GB, pg_wal_most=GB,
        )
        if replace(simulated, phase=0.0) == target else had
        for simulated, had in zip(known.targets, known.outcomes, strict=True)
    )  # fmt: skip
    found = study(replace(known, outcomes=outcomes), question).predictions[target]
    assert (found.cycles, found.spacing_s is None) == (cycles, cycles == 0)
    assert found.confidence == ("medium" if cycles else "low")
    # What the size allows: whole segments to the next redo point, and 0.9 of them to its checkpoint's end.
    assert found.pg_wal_most == int(found.distance_most) == pytest.approx(64 * GB, rel=0.001)


def test_checkpoints_that_overrun_each_other_are_bracketed() -> None:
    prediction = make().predictions[replace(PRESENT, max_wal_size_mb=64)]
    assert prediction.is_late
    assert prediction.confidence == "low"
    assert prediction.wal_span.low < 0.5 * prediction.wal_bytes
    assert any("overrun" in reason for reason in prediction_reasons(prediction))


def test_cliffs_are_where_a_doubling_saves_a_third() -> None:
    pairs = {
        (cliff.smaller.target.max_wal_size_mb, cliff.larger.target.max_wal_size_mb)
        for cliff in make().cliffs()
    }
    assert (1024, 2048) in pairs
    assert (4096, 8192) not in pairs


def test_no_time_gives_figures_of_the_recording() -> None:
    found = make(facts=recorded(first_time_us=None, last_time_us=None))
    assert found.hours is None
    assert found.recorded_bytes == 9 * GB
    assert any("has no times" in reason for reason in recording_reasons(found))


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"full_page_writes_off": True}, "full_page_writes was off"),
        ({"images": 0}, "no full-page image"),
        ({"hint_images": 4000}, "hint bit"),
        ({"begun_before": 5000}, "middle of a checkpoint cycle"),
        ({"has_backup": True}, "online backup"),
        ({"held_pages": 1000}, "1,000 of about 50,000 pages"),
        ({"has_consistency_images": True}, "wal_consistency_checking"),
        ({"longest_silence_us": HOUR_US}, "no transaction ended"),
        ({"agreement": Agreement(900, 9000, 100, 0, 1000, 1000)}, "unexplained"),
        ({"agreement": Agreement(1000, 9000, 0, 0, 1200, 1000)}, "+20 % off"),
    ],
)
def test_reasons(facts: dict[str, object], word: str) -> None:
    assert not recording_reasons(make())
    (reason,) = recording_reasons(make(facts=recorded(**facts)))
    assert word in reason


def test_a_promotion_is_named() -> None:
    found = make()
    promoted = replace(found, found=replace(found.found, timeline=3))
    (reason,) = recording_reasons(promoted)
    assert "from timeline 1 to 3" in reason


def test_contents_that_are_gone_tell_no_compression() -> None:
    found = make()
    stripped = replace(found, found=replace(found.found, sample=ImageSample(0, 0, {})))
    assert len(found.told()) - len(stripped.told()) == 4
    assert all(prediction.target.wal_compression == "as recorded" for prediction in stripped.told())
    (reason,) = recording_reasons(stripped)
    assert "stripped of contents" in reason


def test_a_sample_widens_the_span() -> None:
    question = Question(PRESENT, is_present_known=True)
    exact = make(question)
    outcomes = tuple(
        replace(outcome, sample_error_bytes=0.05 * outcome.wal_bytes) for outcome in exact.found.outcomes
    )
    sampled = study(replace(exact.found, outcomes=outcomes), question)
    assert sampled.present.sample_error == pytest.approx(0.05)
    assert sampled.present.wal_span.high > 1.1 * exact.present.wal_span.high
    assert sampled.present.wal_span.low < exact.present.wal_span.low / 1.1


def test_wal_of_two_minors_is_told() -> None:
    first, two = (make(Question(PRESENT, True, recorded=it)) for it in (("18.6",), ("18.4", "18.6")))
    assert not any("minors" in reason for reason in recording_reasons(first))
    assert any("(18.4 and 18.6)" in reason for reason in recording_reasons(two))


def test_only_methods_that_the_server_has_are_asked_about() -> None:
    question = Question(PRESENT, is_present_known=True, methods=("off", "pglz"))
    assert {target.wal_compression for target in question.settings()} == {"as recorded", "off", "pglz"}


def test_every_question_is_simulated_once() -> None:
    asked = replace(PRESENT, max_wal_size_mb=3000)
    question = Question(PRESENT, is_present_known=False, asked=(asked, asked))
    settings = question.settings()
    assert len(settings) == len(set(settings))
    assert {PRESENT, asked} <= set(settings)
    assert len(question.targets()) == 5 * len(settings)


def _with_cycles(count: int, error: float | None, target: Target = PRESENT) -> SimulatedRun:
    simulated = outcome(target)
    return replace(simulated, cycles=replace(simulated.cycles, count=count, error=error))


def test_few_cycles_widen_the_span_by_how_cycles_differ() -> None:
    # 16 cycles that differ by 8 % each: their mean is known to 2 %, times Student's t of 15 degrees, 2.13.
    assert cycle_error(PRESENT, [_with_cycles(16, 0.02)], {}) == pytest.approx(2.13 * 0.02, rel=0.01)
    # One cycle tells nothing of others: a shorter spacing does, with the uncertainty of four.
    assert cycle_error(PRESENT, [_with_cycles(1, None)], {300: 0.08}) == pytest.approx(3.1 * 0.08, rel=0.02)
    assert cycle_error(PRESENT, [_with_cycles(1, None)], {}) == pytest.approx(0.196)
    outcomes = {
        PRESENT: _with_cycles(4, 0.01),
        replace(PRESENT, max_wal_size_mb=512): _with_cycles(9, 0.1),
        replace(PRESENT, max_wal_size_mb=2048): _with_cycles(3, 0.2),
    }
    assert spreads(outcomes) == {300: pytest.approx(0.02)}


def test_a_sample_of_images_widens_the_span_of_compression() -> None:
    sample = ImageSample(
        100, 800_000, {"pglz": MethodSample(400_000, 1, 0.05), "lz4": MethodSample(400_000, 1)}
    )
    found = replace(make().found, sample=sample)
    pglz, lz4 = replace(PRESENT, wal_compression="pglz"), replace(PRESENT, wal_compression="lz4")
    share = outcome(PRESENT).image_bytes / outcome(PRESENT).wal_bytes
    assert image_error(pglz, outcome(pglz), found) == pytest.approx(1.96 * 0.05 * share)
    # A recording of an earlier version does not tell: as if images differed by half.
    assert image_error(lz4, outcome(lz4), found) == pytest.approx(1.96 * 0.05 * share)
    assert image_error(PRESENT, outcome(PRESENT), found) == 0.0
    prediction = study(found, make().question).predictions[pglz]
    assert prediction.wal_span.high > 1.08 * prediction.wal_bytes
    assert prediction.confidence != "high"


def test_no_size_is_asked_about_with_which_a_server_does_not_start() -> None:
    """max_wal_size holds two segments at least (ReadControlFile in xlog.c)."""
    for segment_mb, least_mb in ((16, 64), (64, 128), (1024, 2048)):
        asked = Question(replace(PRESENT, max_wal_size_mb=4096), True, segment_bytes=segment_mb << 20)
        assert min(target.max_wal_size_mb or 0 for target in asked.grid()) == least_mb
