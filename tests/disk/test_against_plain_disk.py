"""Random file operations through the library on a real filesystem; every crash image against a plain model.

Two processes take turns, so that what they share is tested, too. With everything kept the image has to be the
live folder, with nothing kept exactly what is durable, and otherwise names of one moment and sectors of some
moment since the last flush.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.disk.plain_disk import File, Link, Node, PlainDisk
from walproof.disk.image import Survival, build_image
from walproof.disk.simulated import STATE_FOLDER, DiskModel, SimulatedDisk

DRIVER = Path(__file__).with_name("driver.py")
NAMES = ["one", "two", "three", "a/one", "a/two", "b/one"]
BASE_SEED = int(os.environ.get("WALPROOF_TEST_SEED", "1"))
STORIES = 16 if "WALPROOF_TEST_SEED" in os.environ else 8  # `make check-long` names seeds


class Machine:
    """Drivers under the library, and the plain disk beside them."""

    def __init__(self, folder: Path, disk: SimulatedDisk) -> None:
        self.folder = folder
        self.plain = PlainDisk()
        self.held: dict[tuple[int, int], File] = {}
        self.everything: list[File] = []
        self.log: list[str] = []
        self.drivers = [
            subprocess.Popen(
                [sys.executable, "-I", "-S", str(DRIVER)], cwd=folder, text=True,
                env=disk.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for _ in range(2)
        ]  # fmt: skip

    def tell(self, driver: int, *call: object) -> None:
        process = self.drivers[driver]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(repr(call) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        text = ", ".join(f"{len(part)} bytes" if isinstance(part, bytes) else repr(part) for part in call)
        self.log.append(f"{driver} {text}")
        assert answer == "done\n", f"{answer}\n" + "\n".join(self.log)

    def end(self) -> None:
        for process in self.drivers:
            process.kill()
            process.communicate()

    def files(self) -> list[str]:
        return [path for path, node in self.plain.tree.items() if isinstance(node, File)]


def _bytes(rng: random.Random, most: int) -> bytes:
    # Contents that tell where they are from: a run of one byte could hide an offset.
    return rng.randbytes(rng.randint(1, most))


def _step(machine: Machine, rng: random.Random) -> None:
    plain, driver = machine.plain, rng.randrange(2)
    paths = machine.files()
    kind = rng.choices(
        ["create", "write", "append", "vector", "synced", "trunc", "truncate", "flush", "folder", "hold",
         "held", "held-cut", "rename", "unlink", "link", "mkdir", "rmdir", "symlink", "sync", "allocate",
         "copy", "stream"],
        [6, 12, 3, 3, 3, 2, 5, 8, 2, 3, 6, 2, 5, 4, 1, 2, 1, 1, 0.5, 2, 2, 2],
    )[0]  # fmt: skip
    if kind == "create":
        path = rng.choice(NAMES)
        if path in plain.tree or ("/" in path and path.split("/")[0] not in plain.tree):
            return
        data = _bytes(rng, 9000)
        machine.tell(driver, "write", path, os.O_RDWR | os.O_CREAT, 0, data)
        plain.create(path)
        machine.everything.append(plain.file(path))
        plain.write(plain.file(path), 0, data)
    elif kind in ("mkdir", "rmdir", "symlink"):
        path = rng.choice(["a", "b", "c"])
        inside = any(name.startswith(path + "/") for name in plain.tree)
        if kind == "rmdir" and path in plain.tree and plain.tree[path] is None and not inside:
            machine.tell(driver, "rmdir", path)
            plain.remove(path)
        elif kind == "mkdir" and path not in plain.tree:
            machine.tell(driver, "mkdir", path)
            plain.put(path, None)
        elif kind == "symlink" and "link" not in plain.tree:
            machine.tell(driver, "symlink", "some/where", "link")
            plain.put("link", Link("some/where"))
    elif kind == "folder":
        folder = rng.choice([".", *(path for path, node in plain.tree.items() if node is None)])
        machine.tell(driver, "flush", folder, False)
        plain.step += 1
        plain.commit()
    elif kind == "sync":
        machine.tell(driver, "sync")
        plain.sync(machine.everything)
    elif kind in ("held", "held-cut"):
        keys = [key for owner, key in machine.held if owner == driver]
        if keys:
            key = rng.choice(keys)
            file, at, data = machine.held[driver, key], rng.randint(0, 30_000), _bytes(rng, 9000)
            if kind == "held":
                machine.tell(driver, "write_held", key, at, data)
                plain.write(file, at, data)
            else:
                machine.tell(driver, "truncate_held", key, at)
                plain.truncate(file, at)
    elif paths:
        _step_on_file(machine, rng, driver, kind, rng.choice(paths))


def _step_on_file(machine: Machine, rng: random.Random, driver: int, kind: str, path: str) -> None:
    plain = machine.plain
    file = plain.file(path)
    at, data = rng.randint(0, 40_000), _bytes(rng, 20_000)
    if kind == "write":
        flags = rng.choice([os.O_RDWR, os.O_WRONLY])
        machine.tell(driver, "write", path, flags, at, data)
        plain.write(file, at, data)
    elif kind == "append":
        machine.tell(driver, "write", path, os.O_WRONLY | os.O_APPEND, 0, data)
        plain.write(file, len(file.live), data)
    elif kind == "vector":
        machine.tell(driver, "write_vector", path, at, data)
        plain.write(file, at, data)
    elif kind == "synced":
        machine.tell(driver, "write", path, os.O_RDWR | os.O_DSYNC, at, data)
        plain.write(file, at, data)
        plain.written_through(file, at, len(data))
    elif kind == "trunc":
        machine.tell(driver, "write", path, os.O_RDWR | os.O_TRUNC, 0, data)
        if file.live:
            plain.truncate(file, 0)
        plain.write(file, 0, data)
    elif kind == "truncate":
        # Sometimes of a file so long that what is cut off is kept apart.
        if rng.random() < 0.2:
            machine.tell(driver, "write", path, os.O_RDWR, 600_000, data)
            plain.write(file, 600_000, data)
        machine.tell(driver, "truncate", path, at)
        plain.truncate(file, at)
    elif kind == "flush":
        machine.tell(driver, "flush", path, rng.random() < 0.5)
        plain.flush(file)
    elif kind == "hold":
        key = rng.randrange(3)
        machine.tell(driver, "hold", key, path)
        machine.held[driver, key] = file
    elif kind == "rename":
        new = rng.choice([name for name in NAMES if "/" not in name or name.split("/")[0] in plain.tree])
        machine.tell(driver, "rename", path, new)
        plain.rename(path, new)
    elif kind == "unlink":
        machine.tell(driver, "unlink", path)
        plain.remove(path)
    elif kind == "link":
        if "other" not in plain.tree:
            machine.tell(driver, "link", path, "other")
            plain.put("other", file)
    elif kind == "allocate":
        machine.tell(driver, "allocate", path, at, len(data))
        if at + len(data) > len(file.live):
            plain.write(file, len(file.live), bytes(at + len(data) - len(file.live)))
    elif kind == "copy":
        source = rng.choice([name for name in machine.files() if plain.file(name) is not file] or [""])
        copied = source and plain.file(source).live[:10_000]
        if copied:
            machine.tell(driver, "copy", source, path, at, 10_000)
            plain.write(file, at, bytes(copied))
    elif kind == "stream":
        machine.tell(driver, "stream", path, "w", data)
        if file.live:
            plain.truncate(file, 0)
        plain.write(file, 0, data)


def _read(folder: Path) -> dict[str, bytes | str | None]:
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = None if path.is_dir() else path.read_bytes()
    return found


def _expected(tree: dict[str, Node], content: dict[File, bytes]) -> dict[str, bytes | str | None]:
    return {
        path: content[node] if isinstance(node, File) else node.target if isinstance(node, Link) else None
        for path, node in tree.items()
    }


def _difference(found: dict[str, bytes | str | None], expected: dict[str, bytes | str | None]) -> str | None:
    """In which file, and where in it, two folders differ."""
    for path in sorted(found.keys() | expected.keys()):
        ours, other = found.get(path, "missing"), expected.get(path, "missing")
        if isinstance(ours, bytes) and isinstance(other, bytes):
            at = next((i for i, (a, b) in enumerate(zip(ours, other, strict=False)) if a != b), None)
            if ours != other:
                return f"{path}: {len(ours)} bytes, expected {len(other)}, first difference at {at}"
        elif ours != other:
            return f"{path}: {ours!r:.40}, expected {other!r:.40}"
    return None


def _shape(found: dict[str, bytes | str | None]) -> dict[str, str | None]:
    return {path: "file" if isinstance(node, bytes) else node for path, node in found.items()}


def _is_possible(file: File, found: bytes, unit: int) -> str | None:
    """Why this content of a file is impossible."""
    sizes = [len(state) for state in file.states]
    if not min(sizes) <= len(found) <= max(sizes):
        return f"{len(found)} bytes, it had {sizes}"
    for at in range(0, len(found), unit):
        held = found[at : at + unit]
        if not any(state[at : at + len(held)].ljust(len(held), b"\0") == held for state in file.states):
            return f"unit of {unit} bytes at {at} was never like that"
    return None


@pytest.mark.parametrize("number", range(STORIES))
def test_every_image_is_one_that_the_disk_could_hold(number: int, tmp_path: Path) -> None:
    rng = random.Random(f"{BASE_SEED}/{number}")
    folder = tmp_path / "disk"
    folder.mkdir()
    model = DiskModel(undo_bytes=64 * 1024**2, writeback_s=None)
    state = STATE_FOLDER / f"walproof-test-{uuid.uuid4().hex}"
    with SimulatedDisk([folder], model, state, seed=number) as disk:
        machine = Machine(folder, disk)
        try:
            for _ in range(60):
                _step(machine, rng)
            disk.cut()
            disk.settle()
        finally:
            machine.end()
        story = "\n".join(machine.log)
        plain = machine.plain
        live = {file: file.live for file in machine.everything}
        assert _difference(_read(folder), _expected(plain.tree, live)) is None, story

        built = tmp_path / "everything"
        build_image(disk, [built], 1, Survival("everything"))
        assert _difference(_read(built), _read(folder)) is None, story

        built = tmp_path / "nothing"
        build_image(disk, [built], 1, Survival("nothing"))
        durable = {file: plain.durable(file) for file in machine.everything}
        assert _difference(_read(built), _expected(plain.trees[0][1], durable)) is None, story

        for seed in range(8):
            unit = rng.choice([512, 4096, 8192])
            data = rng.choice(["random", "random", "by age"])
            built = tmp_path / f"image-{seed}"
            build_image(disk, [built], seed, Survival(data, rng.choice([0.2, 0.5, 0.9]), unit))  # type: ignore[arg-type]
            found = _read(built)
            trees = [tree for _, tree in plain.trees if _shape(_expected(tree, live)) == _shape(found)]
            assert trees, f"names of no moment: {_shape(found)}\n{story}"
            complaints = []
            for tree in trees:
                why = [
                    f"{path}: {reason}"
                    for path, node in tree.items()
                    if isinstance(node, File)
                    and isinstance(content := found[path], bytes)
                    and (reason := _is_possible(node, content, unit))
                ]
                complaints.append(why)
            assert [] in complaints, f"{complaints}\n{story}"
