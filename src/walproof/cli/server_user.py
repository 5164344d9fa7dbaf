"""A line about the user that runs the servers, for commands that start some without a plan."""

from __future__ import annotations

import sys


def say_server_user() -> None:
    """On stderr, when walproof was started as root. Raises InstallError where there is no such user."""
    from walproof.privilege.user import explained, server_user

    user = server_user()
    if user is not None:
        sys.stderr.write(f"servers run as user {explained(user)}\n")
