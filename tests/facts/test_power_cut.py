"""What a power cut left, as facts: which states are sound, which are failures, and how many there were."""

from __future__ import annotations

from walproof.facts import CheckedImage, CutFacts, ImageState

S = ImageState


def test_a_state_is_sound_or_a_failure_or_a_loss_of_the_last_commits() -> None:
    assert [state for state in S if state.is_sound] == [S.CLEAN, S.BENIGN]
    assert [state for state in S if state.is_failure] == [S.HOLES, S.CORRUPT, S.NO_START]


def test_every_state_is_counted() -> None:
    images = tuple(
        CheckedImage(number, number, "nothing of 512 B", state, None, 0, 0, None, 0.1)
        for number, state in enumerate((S.CLEAN, S.NO_START, S.CLEAN), 1)
    )
    cut = CutFacts(1, "wal flush 1", "busy", 1, 1.0, 0, 0, (), images)
    assert cut.counts == {S.CLEAN: 2, S.BENIGN: 0, S.LOST: 0, S.HOLES: 0, S.CORRUPT: 0, S.NO_START: 1}
    assert list(cut.counts) == list(S)
