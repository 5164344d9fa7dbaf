"""Facts about the machine and the server."""

from __future__ import annotations

import getpass
import os
import platform
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from walproof.errors import ProbeError
from walproof.probe.environment import observe_environment
from walproof.probe.server_settings import server_facts

if TYPE_CHECKING:
    from .conftest import Server


def test_the_machine_is_described(tmp_path: Path) -> None:
    facts = observe_environment(tmp_path)
    assert next(iter(facts)) == "cpu"
    assert facts["cores"] == str(len(os.sched_getaffinity(0)))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert int(facts["memory_bytes"]) == pytest.approx(pages, rel=0.01)
    assert platform.release() in facts["kernel"]
    assert facts["python"] == platform.python_version()
    assert facts["filesystem"]
    assert len(facts["load_average"].split()) == 3
    assert all(facts.values())


def test_memory_is_a_filesystem_without_a_disk() -> None:
    facts = observe_environment(Path("/dev/shm"))
    assert facts["filesystem"] == "tmpfs"
    assert not any(name.startswith("disk") for name in facts)


def test_nobody_is_named(tmp_path: Path) -> None:
    text = " ".join(observe_environment(tmp_path).values()).split()
    assert socket.gethostname() not in text
    assert getpass.getuser() not in text


@pytest.mark.live
def test_settings_that_differ_are_listed_as_show_prints_them(server: Server) -> None:
    settings, version = server_facts(server.conninfo)
    assert re.match(rf"PostgreSQL {server.version_num // 10000}(\.|rc|beta)", version)
    assert settings["shared_buffers"] == "32MB"
    assert settings["track_wal_io_timing"] == "on"
    assert list(settings) == sorted(settings)
    assert "checkpoint_timeout" not in settings  # at its default
    text = " ".join(f"{name} {value}" for name, value in settings.items())
    for private in (str(server.folder), "walproof probe", "probe: test", "hba_file"):
        assert private not in text


@pytest.mark.live
def test_settings_of_a_secret_kind_are_left_out(server18: Server) -> None:
    with server18.connect() as connection:
        connection.execute("ALTER SYSTEM SET primary_conninfo = 'host=example password=sesame'")
        connection.execute("ALTER SYSTEM SET archive_command = 'copy --key=sesame'")
        connection.execute("ALTER SYSTEM SET commit_delay = 77")
        try:
            connection.execute("SELECT pg_reload_conf()")
            while "77" not in str(connection.execute("SHOW commit_delay").fetchone()):
                connection.execute("SELECT pg_sleep(0.01)")
            settings, _ = server_facts(server18.conninfo)
        finally:
            connection.execute("ALTER SYSTEM RESET ALL")
            connection.execute("SELECT pg_reload_conf()")
    assert settings["commit_delay"] == "77"
    assert "sesame" not in str(settings)


def test_no_server_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="could not connect"):
        server_facts(f"host={tmp_path} user=postgres dbname=postgres")
