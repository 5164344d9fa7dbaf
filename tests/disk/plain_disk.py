"""A disk with a cache in plain Python: all states of every file since its last flush, all trees of names.

Written from the rules in the documentation of walproof-disk, not from its code: the oracle of its tests.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)
class File:
    """One inode: what it held after each step since the last flush."""

    states: list[bytes] = field(default_factory=lambda: [b""])
    cuts: list[tuple[int, int]] = field(default_factory=list)
    """Truncations since the last flush: step and size."""

    @property
    def live(self) -> bytes:
        return self.states[-1]

    def resized(self) -> bool:
        return len({len(state) for state in self.states}) > 1 or bool(self.cuts)


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


Node = File | Link | None
"""None: a folder."""


class PlainDisk:
    """Every method is a step."""

    def __init__(self) -> None:
        self.step = 0
        self.tree: dict[str, Node] = {}
        self.trees: list[tuple[int, dict[str, Node]]] = [(0, {})]
        """Trees after steps that changed names, from the last durable one on."""
        self.about: list[tuple[int, File | None]] = []
        """Changes of names that are not durable: step, and the file that it is about."""
        self.committed = 0
        """Truncations up to this step are durable."""

    def file(self, path: str) -> File:
        node = self.tree[path]
        assert isinstance(node, File)
        return node

    def _named(self, file: File | None) -> None:
        self.trees.append((self.step, dict(self.tree)))
        self.about.append((self.step, file))

    def _changed(self, file: File, state: bytes) -> None:
        file.states.append(state)

    def create(self, path: str) -> None:
        self.step += 1
        self.tree[path] = file = File()
        self._named(file)

    def write(self, file: File, at: int, data: bytes) -> None:
        self.step += 1
        old = file.live.ljust(at, b"\0")
        self._changed(file, old[:at] + data + old[at + len(data) :])

    def truncate(self, file: File, size: int) -> None:
        self.step += 1
        if size < len(file.live):
            file.cuts.append((self.step, size))
        self._changed(file, file.live[:size].ljust(size, b"\0"))

    def flush(self, file: File) -> None:
        self.step += 1
        if file.resized() or any(other is file for _, other in self.about):
            self.commit()
        file.states = [file.live]
        file.cuts = []

    def written_through(self, file: File, at: int, length: int) -> None:
        """A synchronous write: its blocks of 4 KiB are durable; all of the file, when its size changed."""
        first, end = at // 4096 * 4096, -(-(at + length) // 4096) * 4096
        if file.resized():
            file.states, file.cuts = [file.live], []
        else:
            live = file.live[first:end]
            file.states = [state[:first] + live + state[end:] for state in file.states]

    def commit(self) -> None:
        """A folder is flushed, or a flush commits the journal."""
        self.committed = self.step
        self.trees = self.trees[-1:]
        self.about = []

    def sync(self, files: list[File]) -> None:
        self.step += 1
        for file in files:
            file.states, file.cuts = [file.live], []
        self.commit()

    def rename(self, old: str, new: str) -> None:
        self.step += 1
        if self.tree[old] is self.tree.get(new, Link("")):
            return
        moved = {path: node for path, node in self.tree.items() if path == old or path.startswith(old + "/")}
        for path in moved:
            del self.tree[path]
        self.tree.update({new + path[len(old) :]: node for path, node in moved.items()})
        node = moved[old]
        self._named(node if isinstance(node, File) else None)

    def remove(self, path: str) -> None:
        self.step += 1
        node = self.tree.pop(path)
        self._named(node if isinstance(node, File) else None)

    def put(self, path: str, node: Node) -> None:
        """A folder, a symbolic link or a second name."""
        self.step += 1
        self.tree[path] = node
        self._named(node if isinstance(node, File) else None)

    def durable(self, file: File) -> bytes:
        """What the disk holds for certain: the last flushed state, and truncations that are committed."""
        state = file.states[0]
        for step, size in file.cuts:
            if step <= self.committed:
                state = state[:size].ljust(size, b"\0")
        return state
