"""Reasons why a prediction is less certain, as sentences: about the recording, and about single settings."""

from __future__ import annotations

from walproof.analysis.whatif import (
    CYCLES_WANTED,
    HINT_SHARE,
    LATE_SHARE,
    STEEP,
    ServerPrediction,
    Study,
)
from walproof.sentences import say_percent
from walproof.settings.minors import compared_minors
from walproof.wal.whatif import WHOLE_SHARE

_DISAGREEMENT = 0.005
_TOLD_ERROR = 0.02
_SIZE_ERROR = 0.05
_BEGUN_BEFORE = 0.01


def recording_reasons(study: Study) -> list[str]:
    """Reasons that hold for every prediction from this recording."""
    found, recorded = study.found, study.found.recorded
    reasons = []
    if found.gaps:
        missing = sum(gap.end - gap.start for gap in found.gaps)
        reasons.append(
            f"WAL is missing in {len(found.gaps)} places ({missing:,} bytes): pages that were touched there "
            "count as untouched."
        )
    if found.first_timeline != found.timeline:
        reasons.append(
            f"The recording goes from timeline {found.first_timeline} to {found.timeline}: at the promotion "
            "or recovery in it every simulated server begins a checkpoint too."
        )
    if (compared := compared_minors(study.question.recorded)) is not None:
        reasons.append(compared)
    if recorded.full_page_writes_off:
        reasons.append(
            "full_page_writes was off or changed in the recording: how large images would be is guessed."
        )
    elif not recorded.images:
        reasons.append("The recording holds no full-page image: how large images would be is guessed.")
    if study.hours is None:
        reasons.append(
            "No two transactions ended a second apart: the recording has no times, so figures are for the "
            "recording as a whole, and checkpoint_timeout has no effect."
        )
    elif found.clock == "recording":
        reasons.append(
            "Hardly a transaction ended in the recording: times are those of the positions that wal capture "
            "wrote down."
        )
    elif found.clock == "segment files":
        reasons.append(
            "Hardly a transaction ended in the recording: times are those at which its segment files were "
            "last written, and WAL is taken to be written evenly in between."
        )
    elif not recorded.tells_time:
        reasons.append(
            "For more than half of the time no transaction ended: when the WAL in between was "
            "written is not known."
        )
    if not found.tells_compression:
        reasons.append("The recording was stripped of contents: how well its images compress cannot be told.")
    if recorded.hint_images > HINT_SHARE * recorded.images:
        share = recorded.hint_images / recorded.images
        reasons.append(
            f"{say_percent(share)} of the images were written because a hint bit was set. A hint bit on a "
            "page that was logged already leaves no trace, so shorter spacings may write more than predicted."
        )
    if recorded.begun_before > _BEGUN_BEFORE * recorded.pages:
        reasons.append(
            "The recording begins in the middle of a checkpoint cycle: for the first reference to a page it "
            "is not known whether the page had been logged before. Rates come from the whole cycles after "
            "that."
        )
    if recorded.has_backup:
        reasons.append("An online backup ended in the recording; while it ran, images were forced.")
    if recorded.has_consistency_images:
        reasons.append("wal_consistency_checking was on: its images are kept as they are.")
    if recorded.held_pages < recorded.pages:
        reasons.append(
            f"{recorded.held_pages:,} of about {recorded.pages:,} pages were followed, a sample by relation. "
            f"Its standard error is {say_percent(study.present.sample_error)} of WAL for the present "
            "settings; intervals hold two of it."
        )
    agreement = recorded.agreement
    if agreement.share is not None and agreement.share < 1 - _DISAGREEMENT:
        reasons.append(
            f"The rule explains {100 * agreement.share:.1f} % of the recording's own references; "
            f"{agreement.unexplained:,} images are unexplained and {agreement.missing:,} missing."
        )
    if agreement.size_error is not None and abs(agreement.size_error) > _SIZE_ERROR:
        reasons.append(
            "Sizes of images that were followed from record to record are "
            f"{100 * agreement.size_error:+.0f} % off."
        )
    return reasons


def prediction_reasons(prediction: ServerPrediction) -> list[str]:
    """Reasons that hold for these settings."""
    reasons = []
    if not prediction.has_whole_cycles:
        reasons.append(
            f"whole checkpoint cycles are less than {say_percent(WHOLE_SHARE)} of the recording, so the "
            "figure is that of the beginning of a cycle: an upper bound"
        )
    elif prediction.cycles < CYCLES_WANTED:
        cycles = "1 whole cycle" if prediction.cycles == 1 else f"{prediction.cycles} whole cycles"
        reasons.append(f"the recording holds {cycles}; {CYCLES_WANTED} would be enough")
    if prediction.late_share > LATE_SHARE:
        reasons.append(
            "checkpoints follow each other within a second or so and would overrun each other: real "
            "spacing is wider"
        )
    if prediction.elasticity is not None and prediction.elasticity < STEEP:
        reasons.append(
            f"the curve is steep (elasticity below {STEEP}): a checkpoint that is 10 % early costs more than "
            f"{say_percent(1.1**-STEEP - 1)} of WAL"
        )
    if prediction.image_error > _TOLD_ERROR:
        reasons.append(
            "only some images were test-compressed: WAL may differ by "
            f"{say_percent(prediction.image_error)} for this"
        )
    if prediction.cycle_error > _TOLD_ERROR:
        reasons.append(
            "cycles of the recording differ: WAL may differ by "
            f"{say_percent(prediction.cycle_error)} for this"
        )
    if prediction.guessed_share > 0.05:
        reasons.append(
            f"{say_percent(prediction.guessed_share)} of the images are of pages whose size the recording "
            "never shows"
        )
    return reasons
