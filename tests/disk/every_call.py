"""Makes one call of libc for each name given, each on files of its own: runs under the library.

It is run as a program of its own, with nothing but the standard library, and imports nothing of walproof.
Files are those that ``test_every_call.py`` has made: ``CALL.file`` of 10,000 bytes "o", and an empty folder,
``CALL.folder``.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from ctypes import c_char_p, c_int, c_long, c_uint, c_ulong, c_void_p

libc = ctypes.CDLL(None, use_errno=True)
NEW = b"n" * 9000
AT_FDCWD, AT_REMOVEDIR = -100, 0x200
FICLONE = 0x40049409
EOPNOTSUPP = 95


class Part(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", c_char_p), ("length", c_ulong))


def call(name: str, *arguments: object, answer: type = c_int) -> int:
    """The function of that name; an answer that says that it failed ends the program."""
    function = getattr(libc, name)
    function.restype = answer
    result = function(*arguments)
    if result is None or (answer is not c_void_p and result < 0):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return int(result)


def opened(name: str, flags: int = os.O_RDWR) -> int:
    return os.open(f"{name}.file", flags)


def write(name: str, *offset: object) -> None:
    call(name, opened(name), NEW, c_ulong(len(NEW)), *offset)


def write_parts(name: str, *more: object) -> None:
    parts = (Part * 2)(Part(NEW[:5000], 5000), Part(NEW[5000:], 4000))
    call(name, opened(name), parts, 2, *more)


def overwrite(name: str, fd: int) -> None:
    os.pwrite(fd, NEW, 0)


def flush(name: str) -> None:
    fd = opened(name)
    overwrite(name, fd)
    call(name, fd)


def flush_all(name: str) -> None:
    overwrite(name, opened(name))
    # One takes a descriptor, the other has no answer.
    call(name, opened(name)) if name == "syncfs" else libc.sync()


def duplicate(name: str, *more: object) -> None:
    # The kernel does not know that its writes are flushed; the library does, and has to know it of the copy.
    fd = opened(name, os.O_RDWR | os.O_DSYNC)
    overwrite(name, call(name, fd, *more))


def reuse(name: str, fd: int, close: Callable[[], object]) -> None:
    """A descriptor that means something else after the call: what is written to it changes no file."""
    os.fsync(fd)
    close()
    memory = os.memfd_create("other")
    assert memory == fd, (memory, fd)
    os.write(memory, NEW)


def stream(name: str, mode: bytes) -> int:
    return call(name, f"{name}.file".encode(), mode, answer=c_void_p)


def close_stream(name: str) -> None:
    file = c_void_p(call("fopen", f"{name}.file".encode(), b"r+", answer=c_void_p))
    reuse(name, libc.fileno(file), lambda: call(name, file))


def reopen(name: str) -> None:
    file = c_void_p(call("fopen", b"/dev/null", b"r", answer=c_void_p))
    call(name, f"{name}.file".encode(), b"w", file, answer=c_void_p)


def close(name: str) -> None:
    fd = opened(name)
    reuse(name, fd, lambda: call(name, fd))


def copy_range(name: str) -> None:
    source = os.open("source", os.O_RDONLY)
    call(name, source, None, opened(name), None, c_ulong(9000), 0)


def send(name: str) -> None:
    call(name, opened(name), os.open("source", os.O_RDONLY), None, c_ulong(9000))


def splice(name: str) -> None:
    out, into = os.pipe()
    os.write(into, NEW[:4000])
    call(name, out, None, opened(name), None, c_ulong(4000), 0)


def mapping(name: str) -> None:
    call(name, None, c_ulong(4096), 3, 1, opened(name), c_long(0), answer=c_void_p)


def share_extents(name: str) -> None:
    # Refused before the kernel sees that there is no such descriptor.
    assert libc.ioctl(opened(name), c_ulong(FICLONE), c_long(-1)) == -1
    assert ctypes.get_errno() == EOPNOTSUPP, ctypes.get_errno()


def start_writing(name: str) -> None:
    # Not passed on to the kernel, which would refuse such flags, where flushes do not reach the disk.
    call(name, opened(name), c_long(0), c_long(0), c_uint(0xFF))


def create(name: str, *before: object) -> None:
    call(name, *before, f"{name}.new".encode(), os.O_CREAT | os.O_RDWR, 0o600)


def truncate_open(name: str, *before: object) -> None:
    call(name, *before, f"{name}.file".encode(), os.O_RDWR | os.O_TRUNC)


def path(name: str, kind: str) -> bytes:
    return f"{name}.{kind}".encode()


def at(name: str, kind: str) -> tuple[int, bytes]:
    return AT_FDCWD, path(name, kind)


CALLS: dict[str, Callable[[str], object]] = {
    "write": write,
    **{name: lambda name: write(name, c_long(100)) for name in ("pwrite", "pwrite64")},
    "writev": write_parts,
    **{name: lambda name: write_parts(name, c_long(100)) for name in ("pwritev", "pwritev64")},
    **{name: lambda name: write_parts(name, c_long(100), 0) for name in ("pwritev2", "pwritev64v2")},
    **{name: lambda name: call(name, opened(name), c_long(10)) for name in ("ftruncate", "ftruncate64")},
    **{name: lambda name: call(name, path(name, "file"), c_long(10)) for name in ("truncate", "truncate64")},
    **{
        name: lambda name: call(name, opened(name), c_long(0), c_long(50_000))
        for name in ("posix_fallocate", "posix_fallocate64")
    },
    **{
        name: lambda name: call(name, opened(name), 0, c_long(0), c_long(50_000))
        for name in ("fallocate", "fallocate64")
    },
    "copy_file_range": copy_range,
    **dict.fromkeys(("open", "open64", "openat", "openat64"), lambda name: create(name, *folder_of(name))),
    **dict.fromkeys(
        ("__open_2", "__open64_2", "__openat_2", "__openat64_2"),
        lambda name: truncate_open(name, *folder_of(name)),
    ),
    **dict.fromkeys(("creat", "creat64"), lambda name: call(name, path(name, "new"), 0o600)),
    **dict.fromkeys(("fopen", "fopen64"), lambda name: stream(name, b"w")),
    **dict.fromkeys(("freopen", "freopen64"), reopen),
    **dict.fromkeys(("unlink", "remove"), lambda name: call(name, path(name, "file"))),
    "unlinkat": lambda name: call(name, *at(name, "folder"), AT_REMOVEDIR),
    "rmdir": lambda name: call(name, path(name, "folder")),
    "rename": lambda name: call(name, path(name, "file"), path(name, "new")),
    "renameat": lambda name: call(name, *at(name, "file"), *at(name, "new")),
    "renameat2": lambda name: call(name, *at(name, "file"), *at(name, "new"), 0),
    "link": lambda name: call(name, path(name, "file"), path(name, "new")),
    "linkat": lambda name: call(name, *at(name, "file"), *at(name, "new"), 0),
    "symlink": lambda name: call(name, b"source", path(name, "new")),
    "symlinkat": lambda name: call(name, b"source", *at(name, "new")),
    "mkdir": lambda name: call(name, path(name, "new"), 0o700),
    "mkdirat": lambda name: call(name, *at(name, "new"), 0o700),
    "ioctl": share_extents,
    "sync_file_range": start_writing,
    "close": close,
    "fclose": close_stream,
    # These make something durable.
    "fsync": flush,
    "fdatasync": flush,
    "dup": duplicate,
    "dup2": lambda name: duplicate(name, 900),
    "dup3": lambda name: duplicate(name, 901, os.O_CLOEXEC),
    "sync": flush_all,
    "syncfs": flush_all,
    # What these do is not seen.
    **dict.fromkeys(("sendfile", "sendfile64"), send),
    "splice": splice,
    **dict.fromkeys(("mmap", "mmap64"), mapping),
}


def folder_of(name: str) -> tuple[int, ...]:
    return (AT_FDCWD,) if "openat" in name else ()


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        CALLS[wanted](wanted)
