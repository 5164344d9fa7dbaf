"""The answer of a tuning so far, kept beside its journal for readers that have no server.

Predictions rest on a recording and take passes over it, so they are kept; measurements are in the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from walproof.advise.tune.answer import TuneAnswer
from walproof.errors import StoreError
from walproof.facts.codec import from_json, to_json
from walproof.files import write_whole
from walproof.report.tune.view import TuningContext
from walproof.settings.change import Before

ANSWER_FILE = "answer.json"


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What `tune_view` needs besides the facts of the first ``len(asked.runs)`` steps."""

    answer: TuneAnswer
    asked: TuningContext
    platform: str
    """Name of the platform in the registry."""
    finished: bool = False
    """Whether it was made after the last step, so that it is shown whenever the tuning is shown again."""

    def is_last(self, steps: int, platform: str, before: Mapping[str, Before]) -> bool:
        """Whether it is the answer after so many steps, with lines for that platform and a server that has
        what ``before`` says."""
        is_same = self.platform == platform and dict(self.asked.before) == dict(before)
        return self.finished and is_same and len(self.asked.runs) == steps

    def rests_on(self, costs: Sequence[str]) -> bool:
        """Whether its times away were predicted with the costs of those notes, of which the first says where
        they come from."""
        return not costs or costs[0] in self.asked.notes


def keep_answer(folder: Path, kept: KeptAnswer) -> None:
    """Write the answer as a whole. Raises StoreError."""
    path = folder / ANSWER_FILE
    try:
        write_whole(path, to_json(kept) + "\n")
    except OSError as error:
        raise StoreError(f'could not write "{path}": {error.strerror}') from error


def kept_answer(folder: Path) -> KeptAnswer | None:
    """The kept answer; None if there is none yet. Raises StoreError if it cannot be read."""
    path = folder / ANSWER_FILE
    try:
        return from_json(KeptAnswer, path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f'could not read "{path}": {error}') from error
