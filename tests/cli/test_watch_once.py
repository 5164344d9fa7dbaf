"""A single look at servers of which nothing can be seen is an error, not a result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import walproof
from tests.watching import BEGAN, SEGMENT, Server, assessor, gone, slot, view
from walproof.advise.watch.concern import Thresholds
from walproof.cli.watch_loop import check_seen, keep_one
from walproof.cli.watch_order import HistoryOrder
from walproof.cli.watch_replay import frames
from walproof.errors import ProbeError
from walproof.facts.watch_history import open_history
from walproof.facts.watch_recorder import HistoryLimits
from walproof.report.watch.plain import plain_text
from walproof.report.watch.view import ServerView


def _unseen() -> ServerView:
    found = assessor()
    found.see([gone()])
    return ServerView(found.assess(1.0, BEGAN + 1), ())


def test_a_server_of_which_nothing_is_seen_is_an_error_with_its_reason_and_hint() -> None:
    with pytest.raises(ProbeError) as caught:
        check_seen([view(Server()), _unseen()])
    assert caught.value.message == "nothing was seen of db1"
    assert caught.value.detail == "db1: connection refused"
    assert caught.value.hint == "Is it running?"
    check_seen([view(Server())])


def test_what_was_never_seen_is_not_said_to_be_seen_later() -> None:
    text = plain_text([_unseen()], is_first=True)
    assert "not seen yet" not in text
    assert "does not answer since" in text
    assert "Is it running?" in text


def test_a_service_that_is_not_defined_is_no_outage(tmp_path: Path) -> None:
    """No server was asked, so nobody is to be paged, and no later look will find it."""
    checked = walproof("watch", "service=walproof_nowhere", "--check", cwd=tmp_path)
    assert checked.returncode == 3
    assert checked.stdout.startswith("WALPROOF UNKNOWN - ")
    assert "not found" in checked.stdout
    watched = walproof("watch", "service=walproof_nowhere", "--plain", "--for", "600s", cwd=tmp_path)
    assert watched.returncode == 2
    assert watched.stdout == ""
    assert "not found" in watched.stderr


def test_the_command_ends_with_2(tmp_path: Path) -> None:
    service = ("watch", "service=walproof_nowhere", "--once", "--every", "0.5s")
    done = walproof(*service, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert (
        'definition of service "walproof_nowhere" not found' in done.stderr or "service file" in done.stderr
    )
    assert "~/.pg_service.conf" in done.stderr
    told = walproof("watch", "host=/nonexistent", *service[2:], "--json", cwd=tmp_path)
    assert told.returncode == 2
    assert json.loads(told.stdout)["no_answer"]["reason"]


@pytest.mark.parametrize("words", [("--bogus",), ("--for",)])
def test_a_wrong_command_line_of_a_check_is_unknown(words: tuple[str, ...], tmp_path: Path) -> None:
    """2, the status of any other command's, is critical to a monitoring system: somebody would be paged."""
    done = walproof("watch", "service=walproof_nowhere", "--check", *words, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.startswith("WALPROOF UNKNOWN - ")
    assert words[0] in done.stdout
    assert walproof("watch", *words, cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--replay", "h"), "not for a replay: --check"),
        (("--replay", "h", "--speed", "fast"), "not for a replay: --check"),
        (("--speed", "2x"), "--speed and --from are for a replay"),
        (("--from", "2h"), "--speed and --from are for a replay"),
        (("--every", "never"), "invalid duration"),
        (("--json", "--listen", "127.0.0.1:1", "host=a"), "not for a check: --listen, --json"),
        (("--for", "1h", "--web", "127.0.0.1:1", "host=a"), "not for a check: --web, --for"),
        (("--config", "absent.toml"), 'could not read "absent.toml": No such file or directory\n'),
        (("--config", "bad.toml"), '"bad.toml" has 1 mistake: bad.toml:1: evry: no such key\n'),
    ],
)
def test_what_a_check_cannot_do_is_unknown(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """And why: the line is all that a monitoring system shows."""
    (tmp_path / "bad.toml").write_text('evry = "5s"\n')
    done = walproof("watch", "--check", *words, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("WALPROOF UNKNOWN - ")
    assert said in done.stdout


def test_the_look_of_a_check_is_kept_where_a_history_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was there before somebody was paged is looked for afterwards."""
    shown = view(Server())
    keep_one([shown], HistoryOrder(tmp_path / "kept.sqlite", HistoryLimits()), 2.0)
    with open_history(tmp_path / "kept.sqlite") as history:
        (frame,) = frames(history, lambda _: Thresholds())
    (again,) = frame.views
    assert again.seen.look is not None
    assert shown.seen.look is not None
    assert again.seen.look.at == shown.seen.look.at
    assert capsys.readouterr().err == ""


def test_a_look_that_was_kept_alone_has_the_concerns_that_were_said(tmp_path: Path) -> None:
    """One look has no rates, which some of them come from."""
    shown = view(Server(slots=[slot("etl")]), room_bytes=100 * SEGMENT)
    keep_one([shown], HistoryOrder(tmp_path / "kept.sqlite", HistoryLimits()), 2.0)
    with open_history(tmp_path / "kept.sqlite") as history:
        (frame,) = frames(history, lambda _: Thresholds())
        (own,) = frames(history, lambda _: Thresholds(lag_warning_s=14.0))
    said = [(concern.key, concern.sentence, concern.since) for concern in frame.views[0].concerns]
    assert said == [(concern.key, concern.sentence, concern.since) for concern in shown.concerns]
    assert "pg_wal full" in [key for key, _, _ in said]
    # With other thresholds the rules speak.
    assert "pg_wal full" not in [concern.key for concern in own.views[0].concerns]


def test_a_history_that_cannot_be_kept_takes_no_answer_of_a_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    keep_one([view(Server())], HistoryOrder(tmp_path / "file" / "kept", HistoryLimits()), 2.0)
    assert capsys.readouterr().err.startswith("warning: history ")
