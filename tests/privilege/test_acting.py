"""What the servers' user plants leads root to nothing that this user could not reach by itself."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests import rights
from tests.needs import lacking
from walproof.privilege.acting import acting_as
from walproof.privilege.copying import copy_tree
from walproof.privilege.user import ServerUser, from_words, server_user, to_words


@pytest.fixture
def theirs(open_place: Path) -> Path:
    """A folder that the servers' user owns, where only root could pass to otherwise."""
    user = server_user()
    folder = open_place / "theirs"
    folder.mkdir(mode=0o700)
    if user is not None:
        os.chown(folder, user.uid, user.gid)
    return folder


def test_a_planted_link_does_not_lead_to_roots_file(theirs: Path, open_place: Path) -> None:
    precious = open_place / "precious"
    precious.write_text("of root alone")
    precious.chmod(0o600)
    (theirs / "walproof.conf").symlink_to(precious)
    user = server_user()
    if user is None:
        lacking("root", "there is nobody else whose rights could be taken")
    with acting_as(user):
        with pytest.raises(PermissionError):
            (theirs / "walproof.conf").write_text("overwritten")
        with pytest.raises(PermissionError):
            (theirs / "walproof.conf").read_text()
        with pytest.raises(PermissionError):
            os.chown(theirs / "walproof.conf", user.uid, user.gid)
    assert precious.read_text() == "of root alone"
    assert precious.stat().st_uid == 0


def test_what_is_made_is_the_users(theirs: Path) -> None:
    user = server_user()
    with acting_as(user):
        (theirs / "file").write_text("")
        (theirs / "folder").mkdir()
    owner = os.geteuid() if user is None else user.uid
    assert {path.stat().st_uid for path in theirs.iterdir()} == {owner}


def test_the_rights_come_back_after_an_error_and_within_each_other(theirs: Path, open_place: Path) -> None:
    def fail() -> None:
        with acting_as(server_user()):
            with acting_as(server_user()):
                pass
            # The inner block's end gave back what the outer had.
            (theirs / "still").write_text("")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    (open_place / "ours").write_text("")
    user = server_user()
    assert (theirs / "still").stat().st_uid == (os.geteuid() if user is None else user.uid)
    assert (open_place / "ours").stat().st_uid == os.geteuid()


def test_another_thread_keeps_its_own(open_place: Path) -> None:
    begin, done = threading.Event(), threading.Event()

    def write() -> None:
        begin.wait(10)
        (open_place / "other").write_text("")
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    with acting_as(server_user()):
        begin.set()
        assert done.wait(10)
    thread.join()
    assert (open_place / "other").stat().st_uid == os.geteuid()


def test_words_of_a_user() -> None:
    user = ServerUser("nobody", 65534, 65533)
    assert from_words(to_words(user)) == user
    assert from_words(to_words(None)) is None
    assert from_words(["nobody", "6553"]) is None
    assert from_words(["nobody", "x", "y"]) is None


def test_the_watch_of_these_tests_sees_what_goes_past_acting(theirs: Path) -> None:
    """The check that runs with every test as root: with the servers' user's rights nothing is seen."""
    source, target = theirs.parent / "source", theirs / "target"
    source.mkdir()
    copy_tree(source, target, reader=None, writer=server_user())
    assert rights.overreached == []
    copy_tree(source, theirs / "other", reader=None, writer=None)
    if server_user() is not None:
        assert "os.mkdir" in rights.overreached[0]
        rights.overreached.clear()
