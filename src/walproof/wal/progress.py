"""How far a pass over WAL has come, for whoever wants to show it. Twenty times a second a native pass calls
the observer that it was given, and handles signals. What either raises stops it
(crates/walproof-python/src/watched.rs)."""

from __future__ import annotations

from collections.abc import Callable

Observe = Callable[[int, int], None]
"""Called with the bytes of WAL read so far and the bytes to read, 0 while that is not known. A command may
read WAL several times; then the numbers start over."""
