"""A history shown again says what was said then."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.cli.command import walproof
from tests.watching import BEGAN, Server, assessor, clock, concerns, gone, slot, standby
from walproof.advise.watch.concern import Thresholds
from walproof.analysis.watch.missing import with_promoted
from walproof.analysis.watch.standbys import named
from walproof.cli.watch_file import read_watch_file
from walproof.cli.watch_keep import watch_record
from walproof.cli.watch_order import Typed, replay_thresholds
from walproof.cli.watch_replay import frames, parse_speed
from walproof.errors import SettingError
from walproof.facts.watch import NoAnswer, OtherPrimary, WatchLook
from walproof.facts.watch_history import open_history
from walproof.facts.watch_recorder import HistoryLimits, HistoryRecorder
from walproof.report.watch.json import watch_data
from walproof.report.watch.view import ServerView

LIMITS = Thresholds(recovery_s=60.0)


def default(_: str) -> Thresholds:
    return Thresholds()


def kept(
    path: Path,
    sightings: Sequence[WatchLook | NoAnswer],
    watched: Mapping[int, str] = MappingProxyType({}),
    promoted: Mapping[int, str | None] = MappingProxyType({}),
    primaries: tuple[OtherPrimary, ...] = (),
) -> list[ServerView]:
    """Views as they were shown when the sightings were made, in a history. ``watched``, ``promoted``: names
    of standbys."""
    found, views = assessor(1 << 40), []
    with HistoryRecorder(path, HistoryLimits(), 1.0, "1", clock=lambda: BEGAN) as recorder:
        for sighting in sightings:
            found.see([sighting])
            seen = found.assess(sighting.seen_s, BEGAN + sighting.seen_s)
            seen = replace(
                seen,
                standbys=named(seen.standbys, watched),
                missing=with_promoted(seen.missing, promoted),
                primaries=primaries,
            )
            crash = clock(70.0)
            view = ServerView(
                seen, concerns(seen, LIMITS, crash), clock=crash, target_s=60.0, notes=("shipped",),
                room_bytes=1 << 40, promoted=promoted,
            )  # fmt: skip
            views.append(view)
            recorder.add([("db1", watch_record(view, BEGAN + sighting.seen_s, recorder.session))])
    return views


def sightings(seconds: int = 40) -> list[WatchLook | NoAnswer]:
    server = Server(slots=[slot()], archived_share=0.5)
    found: list[WatchLook | NoAnswer] = [server.look(second) for second in range(seconds)]
    if seconds > 20:
        found[20] = gone(BEGAN + 20, 20.0)
    return found


def without_since(view: ServerView) -> dict[str, object]:
    """When walproof first saw a concern is by a clock of its own in the first views of these tests."""
    data = watch_data(view)
    return data | {"concerns": [{**concern, "since": None} for concern in data["concerns"]]}


def test_each_moment_is_shown_as_it_was(tmp_path: Path) -> None:
    shown = kept(tmp_path / "h", sightings())
    with open_history(tmp_path / "h") as history:
        again = [view for frame in frames(history, default) for view in frame.views]
    assert len(again) == 40
    assert [without_since(view) for view in again] == [without_since(view) for view in shown]
    assert again[20].seen.no_answer is not None
    assert {concern.key for concern in again[-1].concerns} >= {"crash recovery", "slot etl"}


def test_a_stretch_from_its_middle_knows_what_was_before(tmp_path: Path) -> None:
    """Rates, and since when the archive is behind."""
    shown = kept(tmp_path / "h", sightings())
    with open_history(tmp_path / "h") as history:
        # With a threshold of its own, so that the rules alone speak.
        own = Thresholds(lag_warning_s=14.0)
        (last,) = frames(history, lambda _: own, since=BEGAN + 39)
    assert last.at == BEGAN + 39
    assert without_since(last.views[0]) == without_since(shown[-1])


def test_standbys_are_called_as_they_were(tmp_path: Path) -> None:
    """With the names of those that were watched, and none of them twice."""
    look = Server().look(0)
    both = tuple(replace(standby(1, 1, 1), pid=pid) for pid in (7, 8))
    kept(tmp_path / "h", [replace(look, standbys=both)], {7: "db2"})
    with open_history(tmp_path / "h") as history:
        (frame,) = frames(history, default)
    assert [state.name for state in frame.views[0].seen.standbys] == ["db2", "a"]


@pytest.mark.parametrize(
    ("promoted", "said"),
    [
        ({7: "db2"}, [("missing a", "was promoted")]),
        ({7: None}, [("primary db2", "Two primaries of one system")]),
        ({}, [("missing a", "is gone"), ("primary db2", "Two primaries of one system")]),
    ],
)
def test_a_failover_is_told_as_it_was(
    tmp_path: Path, promoted: dict[int, str | None], said: list[tuple[str, str]]
) -> None:
    server = Server(standby=lambda lsn, second: standby(lsn, lsn, lsn) if second <= 5 else None)
    looks = [server.look(second) for second in range(40)]
    shown = kept(tmp_path / "h", looks, promoted=promoted, primaries=(OtherPrimary("db2", 2, 1),))
    with open_history(tmp_path / "h") as history:
        again = [view for frame in frames(history, default) for view in frame.views]
    assert [without_since(view) for view in again] == [without_since(view) for view in shown]
    told = sorted(
        (concern for concern in again[-1].concerns if concern.key.startswith(("missing ", "primary "))),
        key=lambda concern: concern.key,
    )
    assert [concern.key for concern in told] == [key for key, _ in said]
    assert all(words in concern.sentence for concern, (_, words) in zip(told, said, strict=True))


def test_a_session_begins_anew(tmp_path: Path) -> None:
    """The monotonic clock of another run, or of another machine, is another one."""
    kept(tmp_path / "h", sightings(10))
    kept(tmp_path / "h", sightings(10))
    with open_history(tmp_path / "h") as history:
        found = [frame.views[0] for frame in frames(history, default)]
    assert [view.seen.seen_s for view in found] == [float(second) for second in range(10)] * 2


def test_a_target_that_is_named_holds_in_place_of_the_one_then(tmp_path: Path) -> None:
    kept(tmp_path / "h", sightings(3))
    with open_history(tmp_path / "h") as history:
        (*_, last) = frames(history, lambda _: Thresholds(recovery_s=100.0))
        assert [
            concern.severity.name for concern in last.views[0].concerns if concern.key == "crash recovery"
        ] == []
        with pytest.raises(SettingError, match='no server "db9"'):
            next(frames(history, default, ["db9"]))
        assert len(list(frames(history, default, since=BEGAN + 2))) == 1


def test_what_is_watched_by_a_file_is_replayed_by_it(tmp_path: Path) -> None:
    kept(tmp_path / "h", sightings(3))
    (tmp_path / "watch.toml").write_text(
        'full_warning = "9h"\nrecovery_target = "1h"\n'
        '[[server]]\nname = "db1"\nservice = "one"\nrecovery_target = "100s"\n'
        '[[server]]\nservice = "two"\n'
    )
    of = replay_thresholds(Typed(), read_watch_file(tmp_path / "watch.toml"))
    assert [of(name).recovery_s for name in ("db1", "two")] == [100.0, 3600.0]
    assert (of("db1").full_warning_s, of("db1").lag_warning_s) == (9 * 3600, Thresholds().lag_warning_s)
    assert replay_thresholds(Typed(recovery_target="7s"), None)("db1").recovery_s == 7.0
    assert replay_thresholds(Typed(), None)("db1").recovery_s is None
    said = [
        walproof("watch", "--replay", "h", "--once", "--plain", *words, cwd=tmp_path).stdout
        for words in ([], ["--config", "watch.toml"])
    ]
    assert ["A crash now would take" in text for text in said] == [True, False]


def test_the_command_shows_a_history_at_speed(tmp_path: Path) -> None:
    kept(tmp_path / "h", sightings(30))
    done = walproof("watch", "--replay", "h", "--speed", "1000x", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 30
    assert lines[0]["at"] == BEGAN
    done = walproof("watch", "--replay", "h", "--once", "--plain", cwd=tmp_path)
    assert "db1: critical: A crash now would take" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--replay", "none"], "does not exist"),
        (["--replay", "h", "--every", "1s", "--no-stream", "--wal-disk", "1GB", "--name", "db"],
         "not for a replay: --wal-disk, --every, --name, --no-stream"),
        (["--replay", "h", "--config", "absent.toml"], 'could not read "absent.toml"'),
        (["--speed", "60x"], "--replay FILE"),
        (["--replay", "h", "--from", "2999-01-01"], "no record of that"),
        (["--replay", "h", "--from", "1s"], "no record of that"),
        (["--replay", "h", "--from", "noon"], '"noon" is not a time'),
        (["--replay", "h", "--speed", "fast"], "60x"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_is_said(tmp_path: Path, words: list[str], said: str) -> None:
    kept(tmp_path / "h", sightings(2))
    done = walproof("watch", *words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_speeds() -> None:
    assert (parse_speed("60x"), parse_speed("0.5")) == (60.0, 0.5)
    for text in ("0x", "-1x", "x", "1e9x"):
        with pytest.raises(SettingError):
            parse_speed(text)
