"""Starts commands by fork, from a process that has imported what they import.

A short command is imports for most of its time, and the tests start hundreds. One starter serves one process
of tests, by a socket of packets whose descriptor is the argument, and ends when that is closed. A packet is
one command: a JSON text with ``arguments``, ``cwd`` and ``environment``, and the descriptors of stdin,
stdout, stderr and a pipe for two answers, lines with the command's process id and with its status as
``os.waitpid`` gives it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import time

import walproof.cli

REQUEST_MOST_BYTES = 1 << 17
_LATER = ("altair", "jinja2", "scipy.optimize", "scipy.special")
"""What commands import once they need it."""


def main() -> None:
    """Serve; in a child return when it is ready to be the command."""
    _import_all()
    # Collections of a command need not look through what is there now, which would copy its pages.
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        while True:
            request, descriptors, _, _ = socket.recv_fds(requests, REQUEST_MOST_BYTES, 4)
            if not request:
                os._exit(0)
            if os.fork() == 0:
                break
            for descriptor in descriptors:
                os.close(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *streams, answers = descriptors
    if (pid := os.fork()) != 0:
        for stream in streams:
            os.close(stream)
        os.write(answers, f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        os.write(answers, f"{status}\n".encode())
        os._exit(0)
    os.close(answers)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    wanted = json.loads(request)
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    time.tzset()
    sys.argv = ["walproof", *wanted["arguments"]]


def _import_all() -> None:
    for module in pkgutil.iter_modules(walproof.cli.__path__, "walproof.cli."):
        importlib.import_module(module.name)
    for name in _LATER:
        importlib.import_module(name)


if __name__ == "__main__":
    main()
    runpy.run_module("walproof", run_name="__main__", alter_sys=True)
