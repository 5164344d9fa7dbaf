"""Streams that cannot be written end no command; a result that is lost is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment
from walproof.facts.store import Store

_FULL = Path("/dev/full")
"""Every write to it fails: No space left on device (full(4))."""
_LOST = "walproof: error: could not write to stdout: No space left on device\n"


def _walproof(words: str, redirected: str, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """As a shell starts it, which redirects or closes a stream."""
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$0" -m walproof {words} {redirected}', sys.executable],
        capture_output=True, text=True, check=False, cwd=cwd, timeout=300, env=environment(**changes),
    )  # fmt: skip


@pytest.mark.parametrize("words", ["studies", "studies durability", "--help", "--version", "pg list --json"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_result_that_cannot_be_written_is_an_error(tmp_path: Path, words: str, unbuffered: str) -> None:
    done = _walproof(words, f"> {_FULL}", tmp_path, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 2
    assert done.stderr.startswith(_LOST)
    assert done.stderr.count("\n") == 2, "message and hint, once"


def test_what_a_check_found_is_told_all_the_same(tmp_path: Path) -> None:
    """A status that says more than that the result was lost stays."""
    folder = tmp_path / "wal"
    folder.mkdir()
    (folder / "000000010000000000000009").write_bytes(b"no WAL")
    told = _walproof("wal verify wal --json", "", tmp_path)
    lost = _walproof("wal verify wal --json", f"> {_FULL}", tmp_path)
    assert told.returncode not in (0, 2)
    assert lost.returncode == told.returncode
    assert _LOST in lost.stderr


@pytest.mark.parametrize("redirected", [f"2> {_FULL}", "2>&-"])
def test_messages_that_cannot_be_written_change_nothing(tmp_path: Path, redirected: str) -> None:
    told, silent = _walproof("pg list", "", tmp_path), _walproof("pg list", redirected, tmp_path)
    assert told.stderr, "it has something to say"
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, told.stdout, "")
    assert _walproof("wal stats nowhere", redirected, tmp_path).returncode == 2


@pytest.mark.parametrize("redirected", [">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_like_one_that_goes_nowhere(tmp_path: Path, redirected: str) -> None:
    done = _walproof("studies", redirected, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_file_of_ours_takes_the_place_of_a_closed_stream(tmp_path: Path, number: int) -> None:
    """Else a message would be printed into it."""
    program = (
        "import sys\n"
        "from walproof.cli import print_error\n"
        "from walproof.cli.streams import open_streams\n"
        "open_streams(print_error)\n"
        "with open('ours', 'w') as ours:\n"
        "    print('said'); print('said', file=sys.stderr); sys.stdin.read()\n"
        "    sys.exit(0 if ours.fileno() > 2 else 9)\n"
    )
    done = subprocess.run(
        ["bash", "-c", f'exec "$0" -c "$1" {number}<&-', sys.executable, program],
        capture_output=True, text=True, check=False, cwd=tmp_path, stdin=subprocess.DEVNULL, timeout=60,
        env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ours").read_text() == ""
    assert (done.stdout, done.stderr) == ("" if number == 1 else "said\n", "" if number == 2 else "said\n")


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-5"])
def test_a_character_that_a_locale_lacks_is_no_error(tmp_path: Path, encoding: str) -> None:
    golden = Path(__file__).parents[1] / "golden" / "wal" / "17"
    done = _walproof(f"wal stats {golden} | iconv -f {encoding}", "", tmp_path, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, "")
    assert "resource manager" in done.stdout


@pytest.mark.live
@pytest.mark.parametrize("reader", [pytest.param("full", marks=pytest.mark.long), "gone"])
def test_a_study_goes_on_without_its_progress(tmp_path: Path, reader: str) -> None:
    """Also where a terminal is gone: its messages are lost as these are."""
    words = "compare --set fsync=off --scale 1 --design fresh --rounds 2 --duration 1s --pg embedded"
    if reader == "full":
        done = _walproof(words, f"2> {_FULL}", tmp_path)
    else:
        read, write = os.pipe()
        os.close(read)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "walproof", *words.split()], stdout=subprocess.PIPE, stderr=write,
                text=True, check=False, cwd=tmp_path, timeout=300, env=environment(),
            )  # fmt: skip
        finally:
            os.close(write)
    assert done.returncode == 0
    assert "What was found" in done.stdout
    store = Store(tmp_path / "walproof-out" / "walproof.sqlite")
    run = store.run("last")
    assert run.finished_at is not None
    assert len(store.trials(run.id)) == 4
    store.close()
