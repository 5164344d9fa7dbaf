"""The unprivileged user that runs servers and their clients in place of root."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from walproof.errors import InstallError


class UserOptions(TypedDict, total=False):
    """Keyword arguments of ``subprocess`` that switch to another user; none for the present user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class ServerUser:
    """Name and numbers of the user, as in the password database."""

    name: str
    uid: int
    gid: int


def server_user() -> ServerUser | None:
    """Who runs the server: None (ourselves) unless we are root.

    ``WALPROOF_SERVER_USER``, else ``postgres`` where it exists, else ``nobody``. The user has to be in the
    password database, because initdb looks its name up. Raises InstallError.
    """
    if os.geteuid() != 0:
        return None
    given = os.environ.get("WALPROOF_SERVER_USER")
    for name in (given,) if given else ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid == 0:
            raise InstallError(
                f'server user "{name}" is root',
                detail="PostgreSQL refuses to run as root.",
                hint="Set WALPROOF_SERVER_USER to an unprivileged user.",
            )
        return ServerUser(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise InstallError(
        f'server user "{given}" does not exist' if given else "no unprivileged user to run a server as",
        detail="Started as root, and PostgreSQL refuses to run as root.",
        hint="Set WALPROOF_SERVER_USER to an existing unprivileged user, or start walproof as one.",
    )


def to_words(user: ServerUser | None) -> list[str]:
    """The user as words of a command line or lines of a file; none for ourselves."""
    return [] if user is None else [user.name, str(user.uid), str(user.gid)]


def from_words(words: Sequence[str]) -> ServerUser | None:
    """What ``to_words`` made; None for anything else, as for a file that was cut short."""
    try:
        name, uid, gid = words
        return ServerUser(name, int(uid), int(gid))
    except ValueError:
        return None


def running_as(user: ServerUser | None) -> UserOptions:
    """For ``subprocess.run(..., **running_as(user))``: that user and no other group; None: ourselves."""
    return UserOptions() if user is None else UserOptions(user=user.uid, group=user.gid, extra_groups=[])


def become(user: ServerUser) -> None:
    """Make this process, which is root's, that user's for good: no call brings the rights back."""
    os.setgroups([])
    os.setresgid(user.gid, user.gid, user.gid)
    os.setresuid(user.uid, user.uid, user.uid)
