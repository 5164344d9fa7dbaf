"""Stand-ins for a package client: scripts that print what Maven or npm print."""

from __future__ import annotations

from collections.abc import Callable

Client = Callable[[str, str], None]
"""Puts a script under the name of a client on PATH."""
