"""What is said of a host that gave no answer."""

from __future__ import annotations

from typing import Any

import pytest
from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    OutOfMemoryError,
    RayError,
    TaskUnschedulableError,
)

from walproof.hosts.study import said_loss

_NODE_DIED: Any = NodeDiedError
_OUT_OF_MEMORY: Any = OutOfMemoryError
"""Ray declares no types of them."""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (_NODE_DIED("raylet 10.0.0.1"), "it was lost: its node of the cluster ended or cannot be reached"),
        (LocalRayletDiedError(), "it was lost: its node of the cluster ended or cannot be reached"),
        (_OUT_OF_MEMORY("see docs"), "its memory ran out, and Ray ended the run there"),
        (TaskUnschedulableError("none is left"), "it was lost: The task is not schedulable: none is left"),
    ],
)
def test_the_reason_is_said_without_names_of_classes(error: RayError, said: str) -> None:
    assert said_loss(error) == said
