"""Does file operations that it is told, one a line on stdin, and answers each: runs under the library.

It is run as a program of its own, with nothing but the standard library, and imports nothing of walproof.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

held: dict[int, int] = {}


def write(path: str, flags: int, at: int, data: bytes) -> None:
    fd = os.open(path, flags, 0o600)
    if flags & os.O_APPEND:
        os.write(fd, data)
    else:
        os.pwrite(fd, data, at)
    os.close(fd)


def write_vector(path: str, at: int, data: bytes) -> None:
    fd = os.open(path, os.O_RDWR)
    third = len(data) // 3
    os.pwritev(fd, [data[:third], data[third : 2 * third], data[2 * third :]], at)
    os.close(fd)


def hold(key: int, path: str) -> None:
    if key in held:
        os.close(held[key])
    held[key] = os.open(path, os.O_RDWR)


def write_held(key: int, at: int, data: bytes) -> None:
    os.lseek(held[key], at, os.SEEK_SET)
    os.write(held[key], data)


def truncate_held(key: int, size: int) -> None:
    os.ftruncate(held[key], size)


def flush(path: str, data_only: bool) -> None:
    fd = os.open(path, os.O_RDONLY)
    (os.fdatasync if data_only else os.fsync)(fd)
    os.close(fd)


def allocate(path: str, at: int, length: int) -> None:
    fd = os.open(path, os.O_RDWR)
    os.posix_fallocate(fd, at, length)
    os.close(fd)


def copy(source: str, path: str, at: int, length: int) -> None:
    from_fd, to_fd = os.open(source, os.O_RDONLY), os.open(path, os.O_RDWR)
    os.copy_file_range(from_fd, to_fd, length, 0, at)
    os.close(from_fd)
    os.close(to_fd)


def stream(path: str, mode: str, data: bytes) -> None:
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(path.encode(), mode.encode()))
    libc.fwrite(data, 1, len(data), file)
    libc.fclose(file)


CALLS: dict[str, Callable[..., object]] = {
    "write": write, "write_vector": write_vector, "hold": hold, "write_held": write_held,
    "truncate_held": truncate_held, "truncate": os.truncate, "flush": flush, "allocate": allocate,
    "copy": copy, "stream": stream, "rename": os.rename, "unlink": os.unlink, "link": os.link,
    "mkdir": os.mkdir, "rmdir": os.rmdir, "symlink": os.symlink, "sync": os.sync,
}  # fmt: skip


def main() -> None:
    for line in sys.stdin:
        name, *arguments = eval(line)  # a test's own repr
        try:
            CALLS[name](*arguments)
        except OSError as error:
            print(f"{name}{arguments!r:.100}: {error}", flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main()
