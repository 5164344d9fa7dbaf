"""``watch.toml``, and which of it, the command line and the defaults holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.cli.command import walproof
from walproof.advise.watch.concern import Thresholds
from walproof.cli.app import app
from walproof.cli.watch_file import WatchFile, read_watch_file
from walproof.cli.watch_order import Typed, WatchOrder, watch_order
from walproof.errors import ConninfoError, SettingError

WHOLE = """
every = "5s"
listen = "127.0.0.1:8433"
recovery_target = "60s"
full_warning = "2h"
history = "kept/watch.sqlite"
keep = "7d"

[[server]]
name = "orders"
service = "db1"
wal_disk = "200GB"
max_rate = "20MB"

[[server]]
dsn = "host=db2 port=5433 password=hunter2"
recovery_target = "10s"
stream = false
"""


def file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "watch.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def refused(folder: Path, text: str, mode: int = 0o600) -> SettingError:
    with pytest.raises(SettingError) as caught:
        read_watch_file(file(folder, text, mode))
    return caught.value


def test_a_servers_own_key_wins_over_that_of_all_and_an_option_over_both(tmp_path: Path) -> None:
    found = read_watch_file(file(tmp_path, WHOLE))
    order = watch_order(Typed(), found)
    orders, other = order.servers
    assert (orders.name, orders.conninfo, orders.recovery_s) == ("orders", "service='db1'", 60.0)
    assert (orders.wal_disk_bytes, orders.bytes_per_s_most, orders.streams) == (200 << 30, 20 << 20, True)
    assert (other.name, other.recovery_s, other.streams, other.wal_disk_bytes) == (None, 10.0, False, None)
    assert (order.every_s, order.listen) == (5.0, "127.0.0.1:8433")
    assert (order.thresholds.full_warning_s, order.thresholds.full_critical_s) == (7200.0, 3600.0)
    assert order.history is not None
    assert order.history.path == tmp_path / "kept/watch.sqlite"
    assert (order.history.limits.keep_s, order.history.limits.bytes_most) == (7 * 86400.0, 1 << 30)

    typed = Typed(
        recovery_target="1s", every="1s", full_warning="1h", stream=True, listen="[::1]:1", keep="1d"
    )
    order = watch_order(typed, found)
    assert [server.recovery_s for server in order.servers] == [1.0, 1.0]
    assert all(server.streams for server in order.servers)
    assert (order.every_s, order.thresholds.full_warning_s, order.listen) == (1.0, 3600.0, "[::1]:1")
    assert order.history is not None
    assert order.history.limits.keep_s == 86400.0


def test_each_option_goes_to_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of them are texts, and one in the place of another would be taken."""
    texts = {
        "--recovery-target": "61s", "--wal-disk": "62GB", "--every": "63s", "--full-warning": "64min",
        "--full-critical": "65min", "--lag-warning": "66s", "--lag-critical": "67s",
        "--listen": "127.0.0.1:6868", "--web": "127.0.0.1:6969", "--max-retained": "70MB",
        "--max-rate": "71MB", "--keep": "72d", "--history-max": "73MB",
    }  # fmt: skip
    given = {option.removeprefix("--").replace("-", "_"): text for option, text in texts.items()}
    seen: list[Typed] = []

    def noted(typed: Typed, file: WatchFile | None) -> WatchOrder:
        assert file is None
        seen.append(typed)
        raise typer.Exit

    monkeypatch.setattr("walproof.cli.watch_order.watch_order", noted)
    others = ["--name", "db.example", "--no-stream", "--calibration", "costs.json",
              "--history", "seen.sqlite"]  # fmt: skip
    for words in ([*(word for pair in texts.items() for word in pair), *others], ["--stream"]):
        done = CliRunner().invoke(app, ["watch", "host=a", "host=b", *words])
        assert done.exit_code == 0, done.output
    servers = ("host=a", "host=b")
    assert seen == [
        Typed(
            servers, web_names=("db.example",), stream=False, calibration=Path("costs.json"),
            history=Path("seen.sqlite"), **given,
        ),
        Typed(servers, stream=True),
    ]  # fmt: skip


def test_thresholds_of_the_command_line_are_those_of_the_order() -> None:
    typed = Typed(
        ("host=a",), full_warning="4min", full_critical="3min", lag_warning="1s", lag_critical="2s",
        max_rate="5MB", history_max="6MB",
    )  # fmt: skip
    order = watch_order(typed, None)
    assert order.thresholds == Thresholds(None, 240.0, 180.0, 1.0, 2.0)
    assert order.servers[0].bytes_per_s_most == 5 << 20
    assert order.history is not None
    assert order.history.limits.bytes_most == 6 << 20


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            Typed(("host=a",), full_critical="8h"),
            "--full-critical is 8 h 00 min, and --full-warning 4 h 00 min",
        ),
        (
            Typed(("host=a",), lag_warning="10min"),
            "--lag-warning is 10 min 00 s, and --lag-critical 5 min 00 s",
        ),
    ],
)
def test_thresholds_of_which_one_would_never_count_are_refused(typed: Typed, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        watch_order(typed, None)


def test_a_word_is_a_server_of_the_file_or_a_connection_string(tmp_path: Path) -> None:
    found = read_watch_file(file(tmp_path, WHOLE))
    order = watch_order(Typed(("orders", "host=db9")), found)
    assert [(server.name, server.conninfo) for server in order.servers] == [
        ("orders", "service='db1'"), (None, "host=db9"),
    ]  # fmt: skip
    assert watch_order(Typed(("host=db9",)), None).servers[0].streams
    with pytest.raises(ConninfoError) as caught:
        watch_order(Typed(("no such=dsn password=hunter2",)), found)
    assert "hunter2" not in f"{caught.value.message}{caught.value.detail}"
    with pytest.raises(SettingError, match="no server is named"):
        watch_order(Typed(), WatchFile())


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("evry = '2s'\n", "watch.toml:1: evry: no such key", 'Is "every" meant?'),
        (
            "[[server]]\nservice='a'\n[[server]]\nservice='b'\nlisten='x:1'\n",
            "watch.toml:5: server[2].listen: no such key",
            '"listen" belongs above the first [[server]].',
        ),
        ("dsn = 'host=a'\n", "dsn: no such key", "belongs to a server"),
        ("[[server]]\nservice='a'\npassword='hunter2'\n", "server[1].password: no such key", "~/.pgpass"),
        ("[[server]]\nname='a'\n", 'a server has either "service" or "dsn"', "docs/watch.md"),
        ("every = '2 parsecs'\n", "watch.toml:1: every: ", "docs/watch.md"),
        ("[[server]]\nservice='a'\nwal_disk = 200\n", "200 has no unit", "docs/watch.md"),
        ("[[server]]\nservice='a'\nwal_disk = -1\n", "server[1].wal_disk: ", "docs/watch.md"),
        ("[[server]]\ndsn = 'host=a password=hunter2 x y'\n", "invalid connection string", "docs/watch.md"),
        ("[[server]]\ndsn = 4711\n", "server[1].dsn: should be a text, in quotes", "docs/watch.md"),
        ("listen = 8433\n", "watch.toml:1: listen: should be a text, in quotes, got 8433", "docs/watch.md"),
        ("[server]\nservice = 'a'\n", "watch.toml:1: server: should be a list", "docs/watch.md"),
        ("every = 0\n", "every: a duration has to be above zero, got 0", "docs/watch.md"),
    ],
)
def test_a_mistake_is_told_with_place_and_hint_and_without_secrets(
    tmp_path: Path, text: str, said: str, hint: str
) -> None:
    error = refused(tmp_path, text)
    assert said in (error.detail or "")
    assert hint in (error.hint or "")
    assert "hunter2" not in f"{error.message}{error.detail}{error.hint}"
    assert "4711" not in f"{error.detail}"


def test_a_password_is_for_its_owner_alone(tmp_path: Path) -> None:
    assert "others may read it" in refused(tmp_path, WHOLE, 0o644).message
    assert len(read_watch_file(file(tmp_path, WHOLE.replace("password=hunter2", ""), 0o644)).server) == 2


def test_other_mistakes(tmp_path: Path) -> None:
    assert "is not valid TOML" in refused(tmp_path, "every = \n").message
    assert 'several servers named "a"' in refused(tmp_path, "[[server]]\nname='a'\nservice='b'\n" * 2).message
    with pytest.raises(SettingError, match="could not read"):
        read_watch_file(tmp_path / "none.toml")


def test_the_command_says_what_is_wrong_and_never_a_password(tmp_path: Path) -> None:
    file(tmp_path, WHOLE + "\nwal_disc = '1GB'\n")
    done = walproof("watch", "--config", "watch.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "server[2].wal_disc: no such key" in done.stderr
    assert 'Is "wal_disk" meant?' in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
