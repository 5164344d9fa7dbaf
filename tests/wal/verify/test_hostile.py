"""What tools say of their backups, changed by somebody: the rest of an archive is verified all the same."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.hostile import check
from tests.wal.verify.conftest import Layer
from tests.wal.verify.layouts import Laid

COUNT = 8


def _verify(laid: Laid) -> tuple[tuple[str, ...], ...]:
    command = ("wal", "verify", str(laid.root))
    return command, (*command, "--json")


def test_a_manifest(layer: Layer) -> None:
    laid = layer("folder", "")
    path = laid.files["manifest 1"]
    data = json.loads(path.read_text())
    check(path, {**data, "Files": []}, _verify(laid), laid.root, COUNT, with_checksum)


def with_checksum(data: Any) -> str:
    """As pg_basebackup writes it: the checksum is of every line before its own."""
    kept = {key: value for key, value in data.items() if key != "Manifest-Checksum"}
    text = json.dumps(kept, indent=0)[:-1].rstrip() + ",\n"
    return f'{text}"Manifest-Checksum": "{hashlib.sha256(text.encode()).hexdigest()}"}}\n'


def test_a_sentinel_of_wal_g(layer: Layer) -> None:
    laid = layer("WAL-G", "")
    path = laid.files["manifest 1"]
    check(path, json.loads(path.read_text()), _verify(laid), laid.root, COUNT)


def test_backup_info_of_pgbackrest(layer: Layer) -> None:
    laid = layer("pgBackRest", "")
    path = laid.root / "backup" / "main" / "backup.info"
    sections: dict[str, dict[str, Any]] = {}
    for line in filter(None, path.read_text().splitlines()):
        if line.startswith("["):
            section = sections.setdefault(line[1:-1], {})
        else:
            key, _, value = line.partition("=")
            section[key] = json.loads(value)
    check(path, sections, _verify(laid), laid.root, COUNT, _ini)


def _ini(data: Any) -> str:
    lines = []
    for name, section in data.items():
        lines.append(f"[{name}]")
        lines += (
            [f"{key}={json.dumps(value)}" for key, value in section.items()]
            if isinstance(section, dict)
            else []
        )
    return "\n".join(lines)


def test_backup_info_of_barman(layer: Layer) -> None:
    laid = layer("Barman", "")
    path = laid.files["manifest 1"]
    data = dict(line.split("=", 1) for line in path.read_text().splitlines())

    def text_of(changed: Any) -> str:
        return "\n".join(f"{key}={value}" for key, value in changed.items())

    check(path, data, _verify(laid), laid.root, COUNT, text_of)
