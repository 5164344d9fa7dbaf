"""What pg_dump is told, and where: a program that writes down its words, environment and service file."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interrupting import Interrupt, interrupted
from walproof.errors import ClusterError, ConninfoError
from walproof.postgres.schema import dump_schema

PROGRAM = '#!/bin/sh\necho "words: $*"\nenv\n[ -z "$PGSERVICEFILE" ] || cat "$PGSERVICEFILE"\n'


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "pg_dump"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    for name in ("PGPASSWORD", "PGOPTIONS", "PGSERVICE", "PGHOST"):
        monkeypatch.delenv(name, raising=False)
    return program


def _told(program: Path, dsn: str) -> list[str]:
    return dump_schema(dsn, program).splitlines()


def test_nothing_of_the_address_is_a_word(program: Path) -> None:
    words, *told = _told(
        program,
        "postgresql://watcher:pass%40word@db1:5433/shop?sslpassword=pin&options=-c%20work_mem%3D5MB&keepalives_idle=9",
    )
    for part in ("watcher", "pass@", "db1", "5433", "shop", "pin", "work_mem"):
        assert part not in words
    for line in (
        "PGUSER=watcher", "PGPASSWORD=pass@word", "PGHOST=db1", "PGPORT=5433", "PGDATABASE=shop",
        "PGAPPNAME=walproof", "PGSERVICE=walproof", "[walproof]", "sslpassword=pin", "keepalives_idle=9",
    ):  # fmt: skip
        assert line in told, line
    (options,) = [line for line in told if line.startswith("PGOPTIONS=")]
    assert "work_mem=5MB" in options
    assert "default_transaction_read_only=on" in options
    # Nothing that a kill could leave on a disk.
    assert _service_file(told).startswith("/proc/self/fd/")


def _service_file(told: list[str]) -> str:
    (file,) = [line.partition("=")[2] for line in told if line.startswith("PGSERVICEFILE=")]
    return file


def test_a_python_without_memfd_create_has_another_file_in_memory(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was built for an older C library, as some are that are fetched."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    told = _told(program, "host=db1 sslpassword=pin")
    assert "sslpassword=pin" in told
    assert _service_file(told).startswith("/proc/self/fd/")
    opened = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, **named: Any) -> int:
        if path == "/dev/shm":
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return opened(path, flags, mode, **named)

    monkeypatch.setattr(os, "open", refuse)
    assert "PGHOST=db1" in _told(program, "host=db1")
    with pytest.raises(ClusterError, match="could not make a file in memory") as caught:
        _told(program, "host=db1 sslpassword=canary")
    assert "canary" not in f"{caught.value.detail} {caught.value.hint}"


def test_definitions_are_read_in_utf8(program: Path) -> None:
    """Whatever the encoding of the database, and of the user's terminal."""
    assert "--encoding=UTF8" in _told(program, "host=db1")[0].split()
    program.write_bytes(b'#!/bin/sh\nprintf "CREATE TABLE gr\\303\\266sse"\n')
    assert dump_schema("host=db1", program) == "CREATE TABLE gr\u00f6sse"
    program.write_bytes(b'#!/bin/sh\nprintf "CREATE TABLE gr\\366sse"\n')
    with pytest.raises(ClusterError, match="not in UTF-8") as caught:
        dump_schema("host=db1", program)
    assert caught.value.detail == "Byte 15 of pg_dump's output is 0xf6."
    program.write_bytes(b'#!/bin/sh\nprintf "keine gr\\366sse" >&2\nexit 1\n')
    with pytest.raises(ClusterError) as caught:
        dump_schema("host=db1", program)
    assert caught.value.detail == "keine gr\ufffdsse"


def test_service_files_and_the_environment_are_told_too(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "services"
    services.write_text("[shop]\nhost=db2\ndbname=orders\nsslmode=require\nsslpassword=pin\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGPASSWORD", "word")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    told = _told(program, "service=shop dbname=other")
    for line in ("PGHOST=db2", "PGDATABASE=other", "PGSSLMODE=require", "PGPASSWORD=word", "sslpassword=pin"):
        assert line in told, line
    assert not any("key" in line and line.startswith("AWS") for line in told)
    with pytest.raises(ConninfoError, match="unusable connection string") as caught:
        _told(program, "service=absent password=canary")
    assert "absent" in (caught.value.detail or "")
    assert "canary" not in (caught.value.detail or "")


def test_an_interruption_lets_pg_dump_cancel_its_statement(program: Path, tmp_path: Path) -> None:
    """It does so when it is told to end, not when it is killed."""
    begun, cancelled = tmp_path / "begun", tmp_path / "cancelled"
    program.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, signal, sys, time\n"
        f"signal.signal(signal.SIGINT, lambda *_: (pathlib.Path({str(cancelled)!r}).touch(), sys.exit(1)))\n"
        f"pathlib.Path({str(begun)!r}).touch()\n"
        "time.sleep(60)\n"
    )
    with pytest.raises(Interrupt), interrupted(begun.exists):
        dump_schema("host=db1", program)
    assert cancelled.exists()


def test_what_pg_dump_says_is_without_secrets(program: Path) -> None:
    program.write_text('#!/bin/sh\necho "bad $PGPASSWORD, $PGHOST" >&2\nexit 1\n')
    with pytest.raises(ClusterError) as caught:
        _told(program, "host=db1 password=canary")
    assert caught.value.detail == "bad ***, db1"


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("pg_dump: error: query failed: ERROR:  permission denied for table orders", "takes SELECT"),
        ("ERROR:  canceling statement due to lock timeout", "Somebody holds a lock"),
        ("pg_dump: error: something else", "--table FILE.sql:NAME takes the output"),
    ],
)
def test_what_pg_dump_could_not_do_has_a_hint_of_its_own(program: Path, said: str, hint: str) -> None:
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    with pytest.raises(ClusterError) as refused:
        dump_schema("host=/nowhere dbname=shop", program)
    assert hint in (refused.value.hint or "")
