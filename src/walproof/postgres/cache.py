"""Where walproof keeps what is expensive to make again: installs, relocated binaries, prepared clusters.

Everything in the cache folder can be deleted at any time; making it again only costs time.
"""

from __future__ import annotations

import os
from pathlib import Path

from walproof.errors import DiskError
from walproof.files import expanded
from walproof.privilege.folders import check_own

ROOT_CACHE = Path("/var/cache/walproof")
_PRIVATE, _READABLE = 0o700, 0o755


def cache_path() -> Path:
    """Where the cache is, whether or not it exists.

    ``WALPROOF_CACHE``; else ``/var/cache/walproof`` for root, whose home an unprivileged server cannot
    reach; else ``walproof`` in ``XDG_CACHE_HOME`` or ``~/.cache``. Raises DiskError where there is no home.
    """
    given = os.environ.get("WALPROOF_CACHE")
    if given:
        return expanded(Path(given)).absolute()
    if os.geteuid() == 0:
        return ROOT_CACHE
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification: a relative path is invalid and is to be ignored.
    base = Path(xdg) if Path(xdg).is_absolute() else expanded(Path("~")) / ".cache"
    return base / "walproof"


def cache_folder(*parts: str) -> Path:
    """The cache folder, or a folder in it (``cache_folder("installs")``), made if missing.

    It is its owner's alone (0700) whatever the umask: where a group may write to it, it would be refused.
    What root makes is readable by everyone (0755), because servers run as somebody else.
    Raises DiskError when it cannot be made or written, or when somebody else may change it: what is in it is
    run.
    """
    folder = cache_path().joinpath(*parts)
    is_root = os.geteuid() == 0
    try:
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=_READABLE if is_root else _PRIVATE, exist_ok=True)
            if is_root:
                path.chmod(_READABLE)  # a umask of 077 takes it off
        check_own(cache_path())
        check_own(folder)
    except OSError as error:
        raise _unusable(folder, error.strerror or str(error)) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unusable(folder, "Permission denied")
    return folder


def _unusable(folder: Path, reason: str) -> DiskError:
    return DiskError(
        f'could not use the cache folder "{folder}": {reason}',
        hint="Set WALPROOF_CACHE to a folder that you can write to.",
    )
