"""Which user servers run as: walproof's own, else one that runs nothing else, and never silently another."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.needs import lacking
from walproof.errors import InstallError
from walproof.privilege.processes import Process, others_of
from walproof.privilege.user import ServerUser, choose_user, explained, server_user

USERS = {
    "walproof": (900, 901),
    "nobody": (65534, 65533),
    "postgres": (101, 102),
    "root": (0, 0),
    "ann": (1000, 1),
}
SERVER = Process(95, "postgres")


def _choose(
    given: str | None, there: Sequence[str], busy: Mapping[str, Sequence[Process]] | None = None
) -> ServerUser:
    by_uid = {USERS[name][0]: processes for name, processes in (busy or {}).items()}
    return choose_user(
        given, lambda name: USERS[name] if name in there else None, lambda uid: by_uid.get(uid, ())
    )


def test_its_own_user_comes_first() -> None:
    """Whatever it runs: that is what it is for."""
    found = _choose(None, [*USERS], {"walproof": [SERVER]})
    assert (found.name, found.uid, found.gid) == ("walproof", 900, 901)
    assert explained(found) == "walproof (walproof's own user)"


def test_without_it_a_user_who_runs_nothing() -> None:
    found = _choose(None, ["nobody", "postgres"])
    assert found.name == "nobody"
    assert found.reason == 'there is no user "walproof", and this one runs nothing else'
    assert _choose(None, ["nobody", "postgres"], {"nobody": [Process(7, "dnsmasq")]}).name == "postgres"
    assert _choose(None, ["postgres"]).name == "postgres"


def test_a_user_with_other_servers_is_never_taken() -> None:
    busy = {"nobody": [Process(7, "dnsmasq")], "postgres": [SERVER] * 5}
    with pytest.raises(InstallError, match="no user to run servers as") as refused:
        _choose(None, ["nobody", "postgres"], busy)
    detail, hint = str(refused.value.detail), str(refused.value.hint)
    assert 'There is no user "walproof".' in detail
    assert 'User "nobody" runs other processes: dnsmasq (process 7).' in detail
    assert "postgres (process 95) and 2 more." in detail
    assert "useradd --system" in hint
    assert "WALPROOF_SERVER_USER" in hint


def test_a_user_with_other_servers_may_be_named_and_that_is_said() -> None:
    assert _choose("ann", [*USERS]).reason == "named by WALPROOF_SERVER_USER"
    found = _choose("postgres", [*USERS], {"postgres": [SERVER]})
    assert found.name == "postgres"
    assert found.reason.endswith("it runs other processes, too: postgres (process 95)")


@pytest.mark.parametrize(
    ("given", "there", "says"),
    [
        ("root", ["root"], 'server user "root" is root'),
        ("ann", [], 'server user "ann" does not exist'),
        (None, [], "no user to run servers as"),
    ],
)
def test_what_cannot_be_had_is_refused(given: str | None, there: list[str], says: str) -> None:
    with pytest.raises(InstallError, match=says) as refused:
        _choose(given, there)
    assert "WALPROOF_SERVER_USER" in str(refused.value.hint)


def _process(
    proc: Path, pid: int, uid: int, parent: int, words: str = "", cwd: str = "/", state: str = "S"
) -> None:
    entry = proc / str(pid)
    entry.mkdir(parents=True)
    (entry / "status").write_text(
        f"Name:\tp{pid}\nState:\t{state} (x)\nPPid:\t{parent}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
    )
    (entry / "cmdline").write_bytes(words.replace(" ", "\0").encode())
    (entry / "cwd").symlink_to(cwd)


def test_which_processes_are_others(tmp_path: Path) -> None:
    """Ours are those of a workspace, those below them, and those that root's walproof started."""
    mine = "/var/tmp/walproof-work/running/walproof-0123456789ab"
    _process(tmp_path, 1, 0, 0, "init")
    _process(tmp_path, 10, 65534, 1, "dnsmasq")
    _process(tmp_path, 20, 65534, 1, f"postgres -D {mine}/trial-1/data")
    _process(tmp_path, 21, 65534, 20, "postgres: checkpointer")
    _process(tmp_path, 22, 65534, 1, "postgres: orphan", f"{mine}/trial-1/data")
    _process(tmp_path, 30, 0, 1, "/usr/bin/python3 /usr/bin/walproof run durability")
    _process(tmp_path, 31, 65534, 30, "postgres --version")
    _process(tmp_path, 40, 65534, 1, "/usr/bin/python3 /usr/bin/walproof run")  # anybody may call himself so
    _process(tmp_path, 50, 65534, 1, "postgres -D /srv/walproof-production/data")
    _process(tmp_path, 60, 65534, 1, state="Z")
    _process(tmp_path, 70, 101, 1, "postgres -D /var/lib/postgresql")
    (tmp_path / "self").symlink_to("1")
    assert [process.pid for process in others_of(65534, tmp_path)] == [10, 40, 50]
    assert others_of(101, tmp_path) == [Process(70, "p70")]
    assert others_of(4711, tmp_path) == []


def test_a_process_of_this_machine_is_seen() -> None:
    """It is another's when it does not descend from us."""
    program = (
        "import os, sys, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid(); print(os.getpid(), flush=True); sys.stdout.close(); os.close(1); time.sleep(60)\n"
    )
    user = server_user()
    uid = os.geteuid() if user is None else user.uid
    command = ["/usr/bin/python3", "-I", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, user=uid if user else None, cwd="/") as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.wait()
    try:
        deadline = time.monotonic() + 30
        while pid not in {process.pid for process in others_of(uid)}:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.kill(pid, 9)
    child = subprocess.Popen(["sleep", "60"], user=uid if user else None, cwd="/")
    try:
        assert child.pid not in {process.pid for process in others_of(uid)}
    finally:
        child.kill()
        child.wait()


def test_the_dry_run_says_who(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "WALPROOF_SERVER_USER"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "walproof", "run", "durability", "--dry-run", "--pg", "embedded"],
        capture_output=True, text=True, cwd=tmp_path, env=environment, check=False,
    )  # fmt: skip
    if os.geteuid() != 0:
        assert "servers run as: the user who started walproof\n" in done.stdout
    elif done.returncode == 0:
        assert "servers run as: " in done.stdout
        assert "walproof's own user" in done.stdout or "this one runs nothing else" in done.stdout
    else:
        assert "walproof: error: there is no user to run servers as\n" in done.stderr


@pytest.mark.parametrize(
    "words",
    [("run", "durability", "--dry-run", "--pg", "embedded"), ("advise", "--demo"), ("recovery", "calibrate")],
)
def test_what_starts_a_server_says_that_its_user_does_not_exist(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """Not that there is no PostgreSQL: what only looks for one finds it."""
    if os.geteuid() != 0:
        lacking("root", "only root has a choice of the servers' user")
    done = walproof(*words, cwd=tmp_path, WALPROOF_SERVER_USER="no-such-user")
    assert done.returncode == 2
    assert 'walproof: error: server user "no-such-user" does not exist\n' in done.stderr
    listed = walproof("pg", "list", cwd=tmp_path, WALPROOF_SERVER_USER="no-such-user")
    assert "embedded" in listed.stdout, listed.stderr
