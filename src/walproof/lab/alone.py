"""What one process at a time carries out: a study into a folder, a tuning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from walproof.errors import StoreError, StudyError
from walproof.files import locked_file, private_folder


@contextmanager
def alone(lock: Path, doing: str) -> Iterator[None]:
    """Keep a second process from ``doing`` the same ("running study ...") at the same time. The folder of the
    lock is made where there is none. Raises StudyError, StoreError."""
    with ExitStack() as stack:
        try:
            private_folder(lock.parent)
            is_ours = stack.enter_context(locked_file(lock))
        except OSError as error:
            raise StoreError(
                f'could not write in folder "{lock.parent}": {error.strerror}',
                hint="Name another folder with --out.",
            ) from error
        if not is_ours:
            raise StudyError(
                f"another walproof is {doing}", hint="Wait for it, or name another folder with --out."
            )
        yield
