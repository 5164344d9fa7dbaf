"""The answer of a tuning so far, kept beside its journal for readers that have no server.

Predictions rest on a recording and take passes over it, so they are kept; measurements are in the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from walproof.advise.tune.answer import TuneAnswer
from walproof.errors import StoreError
from walproof.facts.codec import from_json, to_json
from walproof.files import write_whole
from walproof.report.tune.view import TuningContext

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
