"""Functions that a shared library stands in for: the symbols that it exports (elf(5), 64 bit)."""

from __future__ import annotations

import struct
from pathlib import Path

_DYNSYM = 11
_ENTRY = 24
_FUNCTION = 2


def exported_functions(library: Path) -> dict[str, int]:
    """Each exported function, and where its entry in the table of dynamic symbols is in the file."""
    content = library.read_bytes()
    (table,), (size, count) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<HH", content, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", content, table + size * number) for number in range(count)]
    functions = {}
    for section in sections:
        if section[1] != _DYNSYM:
            continue
        names_at = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], _ENTRY):
            name, info, _, home = struct.unpack_from("<IBBH", content, at)
            if info & 0xF == _FUNCTION and home != 0:
                start = names_at + name
                functions[content[start : content.index(b"\0", start)].decode()] = at
    return functions


def without_function(library: Path, name: str, target: Path) -> None:
    """Write a copy of the library in which the dynamic linker does not find ``name``."""
    content = bytearray(library.read_bytes())
    # As a symbol that is wanted, not given: no section and no value.
    struct.pack_into("<HQ", content, exported_functions(library)[name] + 6, 0, 0)
    target.write_bytes(content)
