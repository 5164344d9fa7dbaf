"""Copies the licences of what zig links into a wheel besides crates to share/doc/, for the wheel.

    python3 bench/ship/linker_licenses.py .venv/wheel/bin/python

zig stands in for the C compiler's own libraries: LLVM's libunwind (unwinding of Rust's panics), Zig's
compiler-rt (arithmetic) and the part of glibc that is never in a shared library (`stat` and the like).
The argument is a Python that has the package ziglang.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent.parent / "share" / "doc" / "walproof"
TEXTS = {
    "LICENSE": "zig-compiler-rt.txt",
    "lib/libunwind/LICENSE.TXT": "llvm-libunwind.txt",
    "lib/libc/glibc/LICENSES": "glibc-static-part.txt",
}
"""Files of the package, and their names in a wheel."""


def main() -> int:
    """Copy them; a text that is missing ends the program."""
    asked = "import ziglang; print(ziglang.__path__[0])"
    done = subprocess.run([sys.argv[1], "-c", asked], capture_output=True, text=True, check=True)
    TARGET.mkdir(parents=True, exist_ok=True)
    for source, name in TEXTS.items():
        shutil.copyfile(Path(done.stdout.strip()) / source, TARGET / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
