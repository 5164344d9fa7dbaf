"""The unprivileged user that runs servers and their clients in place of root.

Whoever has the same user as a server can read its files and end it, and what a study starts could do so to
others: so it is a user of walproof's own, or one that runs nothing else, and never silently another.
"""

from __future__ import annotations

import functools
import os
import pwd
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from walproof.errors import InstallError
from walproof.privilege.processes import Process, others_of

DEDICATED = "walproof"
_CANDIDATES = ("nobody", "postgres")
"""Users that are tried where there is no dedicated one. ``postgres`` is last: its clusters may just be
stopped."""
_VARIABLE = "WALPROOF_SERVER_USER"
_MAKE_ONE = f"useradd --system --no-create-home --shell /usr/sbin/nologin {DEDICATED}"


class UserOptions(TypedDict, total=False):
    """Keyword arguments of ``subprocess`` that switch to another user; none for the current user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class ServerUser:
    """The user's name and numbers, as in the password database."""

    name: str
    uid: int
    gid: int
    reason: str = field(default="", compare=False)
    """Why this user was chosen, in one line."""


def server_user() -> ServerUser | None:
    """Who runs the server: None (ourselves) unless we are root.

    ``WALPROOF_SERVER_USER``, else ``walproof`` where it exists, else ``nobody`` or ``postgres``, if that user
    has no live process but ours. The choice is made once: everything that a process starts has the same user.
    The user has to be in the password database, because initdb looks its name up. Raises InstallError."""
    if os.geteuid() != 0:
        return None
    return _chosen(os.environ.get(_VARIABLE))


@functools.cache
def _chosen(given: str | None) -> ServerUser:
    return choose_user(given, _numbers, others_of)


def choose_user(
    given: str | None,
    numbers: Callable[[str], tuple[int, int] | None],
    others: Callable[[int], Sequence[Process]],
) -> ServerUser:
    """The user to take. ``given``: the name that was asked for; ``numbers``: user and group of a name;
    ``others``: processes of a user that are not ours. Raises InstallError.
    """
    if given:
        return _given(given, numbers, others)
    if (found := numbers(DEDICATED)) is not None:
        return ServerUser(DEDICATED, *_unprivileged(DEDICATED, found), "walproof's own user")
    in_the_way = [f'There is no user "{DEDICATED}".']
    for name in _CANDIDATES:
        found = numbers(name)
        if found is None:
            in_the_way.append(f'There is no user "{name}".')
        elif found[0] == 0:
            in_the_way.append(f'User "{name}" is root.')
        elif busy := others(found[0]):
            in_the_way.append(f'User "{name}" runs other processes: {_listed(busy)}.')
        else:
            return ServerUser(name, *found, f'there is no user "{DEDICATED}", and this one runs nothing else')
    raise InstallError(
        "there is no user to run servers as",
        detail="Started as root, and PostgreSQL refuses to run as root. " + " ".join(in_the_way),
        hint=f"Make a user for it ({_MAKE_ONE}), name one with {_VARIABLE}, or start walproof as an "
        "unprivileged user.",
    )


def _given(
    name: str,
    numbers: Callable[[str], tuple[int, int] | None],
    others: Callable[[int], Sequence[Process]],
) -> ServerUser:
    found = numbers(name)
    if found is None:
        raise InstallError(
            f'server user "{name}" does not exist',
            detail="Started as root, and PostgreSQL refuses to run as root.",
            hint=f"Set {_VARIABLE} to an existing unprivileged user, or start walproof as one.",
        )
    uid, gid = _unprivileged(name, found)
    busy = others(uid)
    also = f"; it runs other processes, too: {_listed(busy)}" if busy and name != DEDICATED else ""
    return ServerUser(name, uid, gid, f"named by {_VARIABLE}{also}")


def _unprivileged(name: str, found: tuple[int, int]) -> tuple[int, int]:
    if found[0] == 0:
        raise InstallError(
            f'server user "{name}" is root',
            detail="PostgreSQL refuses to run as root.",
            hint=f"Set {_VARIABLE} to an unprivileged user.",
        )
    return found


def _numbers(name: str) -> tuple[int, int] | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return entry.pw_uid, entry.pw_gid


def _listed(processes: Sequence[Process]) -> str:
    """A few of them."""
    shown = ", ".join(str(process) for process in processes[:3])
    return shown if len(processes) <= 3 else f"{shown} and {len(processes) - 3} more"


def is_usual(user: ServerUser) -> bool:
    """Whether its name may stand in a report: a well-known name is nobody's own, as a name that was given may
    be."""
    return user.name in (DEDICATED, *_CANDIDATES)


def explained(user: ServerUser | None) -> str:
    """Who runs the servers, and why, in one line."""
    if user is None:
        return "the user who started walproof"
    return f"{user.name} ({user.reason})"


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
