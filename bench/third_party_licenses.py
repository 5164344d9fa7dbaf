"""Writes THIRD_PARTY_LICENSES: the crates, and the parts of Rust's library, that are linked into a wheel.

    make licenses

Crates come from ``cargo metadata``, texts from their sources as cargo unpacked them, those of Rust's library
from the notices that its toolchain carries. Where a crate may be used under several licences, the file has
MIT's.
tests/supply/test_licenses.py fails when the file is another than this makes.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "THIRD_PARTY_LICENSES"
TRIPLES = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
LINKED = ("walproof-python", "walproof-preload")
"""Crates whose libraries a wheel has."""
C_LIBRARIES = {"liblzma-sys": "xz/COPYING.0BSD", "zstd-sys": "zstd/LICENSE"}
"""Crates that build a C library, and the file with the licence under which that is used."""
WITHOUT_TEXT = {
    "alloc-stdlib": ("alloc-no-stdlib", "LICENSE"),
    "roaring": ("rayon", "LICENSE-APACHE"),
}
"""Crates published without a text: a crate that has it, of the same authors or without a name in it."""
NOT_IN_LIBRARY = re.compile(
    r"(cc|dlmalloc|fortanix-sgx-abi|getopts|hermit-abi|moto-rt|r-efi|r-efi-alloc|rand|rand_core|rand_xorshift"
    r"|rustc-literal-escaper|shlex|unwinding|vex-sdk|wasi|windows.*|wit-bindgen)"
)
"""Crates of Rust's library that are for its tests, for building it or for other systems than Linux."""
_HEAD = """Software of others in a wheel of walproof, and its licences. Each text stands once, after the list.
`make licenses` writes this file."""


@dataclass(frozen=True, slots=True)
class Part:
    """A linked part: a crate, or Rust's library."""

    name: str
    version: str
    license: str
    """SPDX expression, as the crate declares it."""
    texts: tuple[str, ...]


def metadata(triple: str) -> dict[str, Any]:
    """Cargo's metadata of the workspace and all its crates, for one target."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={triple}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def linked_crates() -> tuple[Part, ...]:
    """The crates of others that run within a wheel's libraries, on any of the targets, by name."""
    found: dict[str, dict[str, Any]] = {}
    for triple in TRIPLES:
        known = metadata(triple)
        found |= {package["id"]: package for package in _linked(known) if package["source"] is not None}
    packages = sorted(found.values(), key=lambda package: (package["name"], package["version"]))
    folders = {package["name"]: Path(package["manifest_path"]).parent for package in packages}
    return tuple(
        Part(package["name"], package["version"], package["license"], tuple(_texts(package, folders)))
        for package in packages
    )


def _linked(known: dict[str, Any]) -> Iterator[dict[str, Any]]:
    packages = {package["id"]: package for package in known["packages"]}
    nodes = {node["id"]: node for node in known["resolve"]["nodes"]}
    todo = [package["id"] for package in known["packages"] if package["name"] in LINKED]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        # A procedural macro runs in the compiler.
        if name in seen or any("proc-macro" in target["kind"] for target in packages[name]["targets"]):
            continue
        seen.add(name)
        yield packages[name]
        for needed in nodes[name]["deps"]:
            # kind is null for what is linked, else "build" or "dev".
            if any(kind["kind"] is None for kind in needed["dep_kinds"]):
                todo.append(needed["pkg"])


def _texts(package: dict[str, Any], folders: dict[str, Path]) -> Iterator[str]:
    name = package["name"]
    if name in WITHOUT_TEXT:
        other, borrowed = WITHOUT_TEXT[name]
        yield _read(folders[other] / borrowed)
        return
    folder = folders[name]
    files = sorted(file for pattern in ("LICEN*", "COPYING*") for file in folder.glob(pattern))
    if "MIT" in re.split(r" OR |/", package["license"]):
        files = [file for file in files if file.name == "LICENSE-MIT"] or files
    if not files:
        raise SystemExit(
            f"{name} has no text of its licence: find out which it is, and name it in WITHOUT_TEXT"
        )
    if name in C_LIBRARIES:
        files.append(folder / C_LIBRARIES[name])
    yield from (_read(file) for file in files)


def rust_library() -> tuple[Part, ...]:
    """Rust's own library and the crates within it, from the notices of the toolchain in use.

    Raises FileNotFoundError where the toolchain came without them, as from a distribution.
    """
    told = [
        subprocess.run(["rustc", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for words in (["--print", "sysroot"], ["--version"])
    ]
    folder = Path(told[0].strip()) / "share/doc/rust"
    page = (folder / "COPYRIGHT-library.html").read_text(encoding="utf-8")
    parts = [
        Part(
            "Rust's standard library", told[1].split()[1], "MIT OR Apache-2.0",
            (_tidy((folder / "licenses/MIT.txt").read_text(encoding="utf-8")),),
        )
    ]  # fmt: skip
    for section in page.split("<h3>📦 ")[1:]:
        # A version may have a minus sign in it, and a name a number after one.
        name, version = re.split(r"-(?=\d+\.)", section.partition("</h3>")[0], maxsplit=1)
        if NOT_IN_LIBRARY.fullmatch(name):
            continue
        license_ = html.unescape(re.search(r"<b>License:</b> ([^<]+)</p>", section)[1])  # type: ignore[index]
        texts = dict(re.findall(r"<code>([^<]+)</code></summary>\s*<pre>(.*?)</pre>", section, re.DOTALL))
        chosen = [text for file, text in texts.items() if file == "LICENSE-MIT"] or list(texts.values())
        parts.append(
            Part(f"{name} (in Rust's standard library)", version, license_,
                 tuple(_tidy(html.unescape(text)) for text in chosen))
        )  # fmt: skip
    return tuple(parts)


def page(parts: Iterable[Part]) -> str:
    """The file: a list of what is linked, with numbers, and the texts that these stand for."""
    numbers: dict[str, int] = {}
    lines = []
    for part in parts:
        given = [numbers.setdefault(text, len(numbers) + 1) for text in part.texts]
        lines.append(f"{part.name} {part.version}: {part.license}; text {', '.join(map(str, given))}")
    texts = [f"{'=' * 20} text {number} {'=' * 20}\n\n{text}" for text, number in numbers.items()]
    return "\n\n".join((_HEAD, "\n".join(lines), *texts)) + "\n"


def _read(file: Path) -> str:
    return _tidy(file.read_text(encoding="utf-8"))


def _tidy(text: str) -> str:
    """Normalise white space, so that equal texts are found equal."""
    return "\n".join(line.rstrip() for line in text.strip("\n\r \ufeff").splitlines())


if __name__ == "__main__":
    TARGET.write_text(page((*linked_crates(), *rust_library())), encoding="utf-8")
