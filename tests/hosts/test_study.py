"""What is said of a host that gave no answer."""

from __future__ import annotations

import os

import pytest

from tests.hosts.clusters import ENVIRONMENT
from walproof.hosts.study import said_loss


@pytest.mark.parametrize(
    ("kind", "words", "said"),
    [
        ("NodeDiedError", ["raylet 10.0.0.1"], "its node of the cluster ended or cannot be reached"),
        ("LocalRayletDiedError", [], "its node of the cluster ended or cannot be reached"),
        ("OutOfMemoryError", ["see docs"], "its memory ran out, and Ray ended the run there"),
        ("TaskUnschedulableError", ["none is left"], "The task is not schedulable: none is left"),
    ],
)
def test_the_reason_is_said_without_names_of_classes(kind: str, words: list[str], said: str) -> None:
    # Ray reads how it authenticates when it is imported, and clusters may follow in this process.
    os.environ.update(ENVIRONMENT)
    from ray import exceptions

    assert said_loss(getattr(exceptions, kind)(*words)).removeprefix("it was lost: ") == said
