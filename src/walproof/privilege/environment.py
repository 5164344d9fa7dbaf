"""Which variables of the user's environment reach the programs that walproof starts: a list of names, nothing
else.

A server shows its environment to whoever may run code in it, a crash reporter to whoever reads its reports.
Keys of clouds, tokens, passwords and addresses with passwords are therefore not handed on unless the user
names the variable in ``WALPROOF_KEEP_ENV``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

KEEP = "WALPROOF_KEEP_ENV"
"""Names of further variables that every program gets, separated by commas."""
_EVERY = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|TEMP|TMP|XDG_(?:CACHE|CONFIG|DATA)_HOME"
    # What a build needs to run: libraries, the allocator's settings, sanitizers.
    r"|LD_LIBRARY_PATH|LD_PRELOAD|DYLD_\w+|GLIBC_TUNABLES|MALLOC_\w+|(?:A|L|T|UB)SAN_OPTIONS"
    # walproof's own helpers are Python.
    r"|PYTHON(?:PATH|HOME|UTF8|IOENCODING|DONTWRITEBYTECODE|PYCACHEPREFIX|NOUSERSITE|USERBASE|WARNINGS)"
)
_PYTHON_PATH = "PYTHONPATH"
_TERMINAL = re.compile(
    r"TERM|COLORTERM|TERMINFO|LANG|LC_\w+|LINES|COLUMNS|PAGER|PSQL_PAGER|PSQL_EDITOR\w*|LESS|EDITOR|VISUAL"
    r"|INPUTRC|PSQLRC"
)
_FOREIGN = re.compile(r"KRB5\w+|SSL_CERT_(?:FILE|DIR)|OPENSSL_CONF|RES_OPTIONS|LOCALDOMAIN")
_CLIENT = re.compile(
    r"JAVA_HOME|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|M2_HOME|MAVEN_\w+|NODE_\w+|NVM_\w+|VOLTA_HOME"
    r"|NPM_\w+|COREPACK_\w+|(?:https?|no|all|ftp)_proxy|SSL_CERT_(?:FILE|DIR)",
    re.IGNORECASE,
)
_ENGLISH = {"LC_ALL": "C", "TZ": "UTC"}
"""Answers are read, so they are in English; servers log in UTC."""


def child_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of servers, pgbench and everything else that needs nothing of the user's; ``more`` is
    added."""
    return {**_kept(_EVERY), **_ENGLISH, **(more or {})}


def terminal_environment(more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that the user talks to (psql): with language, pager and editor as well."""
    return {**_kept(_EVERY, _TERMINAL), **more}


def foreign_environment(more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program that asks a foreign server: with Kerberos and TLS as well. It has none of
    libpq's variables: ``more`` holds those that are meant."""
    return {**_kept(_EVERY, _FOREIGN), **_ENGLISH, **more}


def client_environment() -> dict[str, str]:
    """The environment of the user's package client: with its own settings, among them tokens of registries
    and proxies."""
    return _kept(_EVERY, _TERMINAL, _CLIENT)


def _kept(*lists: re.Pattern[str]) -> dict[str, str]:
    named = {name.strip() for name in os.environ.get(KEEP, "").split(",")}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in named or any(pattern.fullmatch(name) for pattern in lists)
    }
    if _PYTHON_PATH in kept:
        # Our own helpers are started in another folder. An empty name would be that one.
        folders = filter(None, kept[_PYTHON_PATH].split(os.pathsep))
        kept[_PYTHON_PATH] = os.pathsep.join(str(Path(folder).absolute()) for folder in folders)
    return kept
