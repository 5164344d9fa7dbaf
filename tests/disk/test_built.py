"""The library that is preloaded under servers, as it was built: no arithmetic in it can panic."""

from __future__ import annotations

import re
import subprocess

from walproof.disk.preload import library


def test_nothing_in_it_checks_for_overflow() -> None:
    """The messages of such checks would be in the file."""
    words = library().read_bytes()
    found = re.findall(
        rb"attempt to (?:add|subtract|multiply|negate|shift left|shift right) with overflow", words
    )
    assert not found
    # What is looked for is worded so: the check of divisions, which std has, is there.
    assert b"attempt to divide by zero" in words


def test_no_function_of_ours_calls_a_panic() -> None:
    """In its machine code: neither a hook nor the model that it tells of a change (objdump of binutils, which
    linked it)."""
    code = subprocess.run(
        ["objdump", "--disassemble", "--no-show-raw-insn", str(library())],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    function, ours, panics = "", set(), set()
    for line in code.splitlines():
        if begun := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            function = begun[1]
            # A hook has the name of a function of libc; all else of ours names one of our crates.
            if "walproof" in function or not function.startswith("_"):
                ours.add(function)
        elif function in ours and re.search(r"\b(?:call|jmp)\s.*<.*(?:panicking|panic_)", line):
            panics.add(function)
    assert {"write", "pwrite", "fsync", "rename"} <= ours
    assert not panics
