"""Stores on a bad day: what can be repeated is, and what cannot is said without a word of the server's."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import environment, walproof
from tests.wal.places.archive import laid_golden
from tests.wal.places.faulty import Fault, faulty
from tests.wal.places.server import BUCKET, S3, url, without_credentials
from walproof.errors import WalError
from walproof.wal import stats
from walproof.wal.places.client import open_client
from walproof.wal.verify.verify import verify

TOTAL = "WALPROOF_OBJECT_STORE_TIMEOUT"


def _is_object(path: str) -> bool:
    return "list-type" not in path


@pytest.mark.parametrize("fault", [Fault.SLOW_DOWN, Fault.CUT, Fault.SHORT])
def test_what_passes_is_not_seen(
    stored: S3, golden: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    """Every object fails at first; of SlowDown the listing, too."""

    def plan(path: str, count: int) -> Fault | None:
        return fault if count == 0 and (_is_object(path) or fault is Fault.SLOW_DOWN) else None

    with faulty(stored, plan) as proxy:
        for name, value in stored.environment(proxy.port).items():
            monkeypatch.setenv(name, value)
        assert stats(url("golden")) == stats(golden)
        assert all(count >= 2 for path, count in proxy.asked.items() if _is_object(path))


@pytest.mark.parametrize(
    ("fault", "message", "detail"),
    [
        (Fault.SLOW_DOWN, "could not read", "The server said SlowDown (503)."),
        (Fault.CUT, "could not read", "The connection was broken off."),
        (Fault.SHORT, "could not open file", None),
        (Fault.DENIED, "permission denied", "The server said AccessDenied (403)."),
        (Fault.ARCHIVED, "could not open file", None),
        (Fault.CHANGED, "could not open file", None),
    ],
)
def test_what_stays_is_said(
    stored: S3, tmp_path: Path, fault: Fault, message: str, detail: str | None
) -> None:
    with faulty(stored, lambda path, _: fault if _is_object(path) else None) as proxy:
        variables = stored.environment(proxy.port) | {TOTAL: "1s"}
        done = walproof("wal", "stats", url("golden"), cwd=tmp_path, **variables)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"walproof: error: {message}"), done.stderr
    if detail is not None:
        assert f"detail: {detail}\n" in done.stderr, done.stderr
        assert "hint: " in done.stderr
    without_credentials(done.stderr)


def test_what_is_wrong_with_one_object_does_not_end_verification(
    stored: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object in an archive tier is unreadable; the others are verified, and that is not kept."""
    name = "00000001000000000000000A"
    with faulty(stored, lambda path, _: Fault.ARCHIVED if path.endswith(name) else None) as proxy:
        for variable, value in stored.environment(proxy.port).items():
            monkeypatch.setenv(variable, value)
        (archive,) = verify([url("golden")], kept=tmp_path / "kept").archives
        (problem,) = [found for found in archive.problems if found.kind == "unreadable"]
        assert problem.segment == name
        assert "it is in an archive tier" in problem.message
    for variable, value in stored.environment().items():
        monkeypatch.setenv(variable, value)
    (archive,) = verify([url("golden")], kept=tmp_path / "kept").archives
    assert (archive.read_files, archive.kept_files) == (1, archive.files - 1)
    assert archive.is_whole


def test_an_interrupted_verification_goes_on(s3: S3, golden: Path, tmp_path: Path) -> None:
    """The store is gone after two of three segments; what was verified is kept, by path, size, time, ETag."""
    (tmp_path / "archive").mkdir()
    laid = laid_golden(golden, "WAL-G", "zst", tmp_path / "archive")
    s3.upload(laid.root, "resumed")
    last = max(name for name in laid.files if len(name) == 24)
    words = ("wal", "verify", "--threads", "1", "--json", "--kept", "kept", url("resumed"))

    def fails(path: str, count: int) -> Fault | None:
        # First it is asked how large segments are.
        return Fault.SLOW_DOWN if last in path and _is_object(path) and count else None

    with faulty(s3, fails) as proxy:
        environment = s3.environment(proxy.port) | {TOTAL: "1s"}
        done = walproof(*words, cwd=tmp_path, **environment)
        assert done.returncode == 2
        assert "SlowDown" in done.stderr
        without_credentials(done.stderr)
    done = walproof(*words, cwd=tmp_path, **s3.environment())
    (archive,) = json.loads(done.stdout)["archives"]
    # Whether the damaged one was being changed could not be asked: it is looked at again.
    assert (archive["kept_files"], archive["read_files"]) == (1, 2)
    again = walproof(*words, cwd=tmp_path, **s3.environment())
    (archive,) = json.loads(again.stdout)["archives"]
    assert (archive["kept_files"], archive["read_files"]) == (3, 0)
    without_credentials(done.stdout, again.stdout, (tmp_path / "kept").read_text())
    # Other content of the same size: only its ETag tells within a second.
    path = laid.files[last]
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    s3.put(f"resumed/{path.relative_to(laid.root)}", bytes(data))
    (archive,) = json.loads(walproof(*words, cwd=tmp_path, **s3.environment()).stdout)["archives"]
    assert archive["read_files"] == 1


@pytest.mark.parametrize("command", ["stats", "verify"])
def test_what_is_not_there(s3: S3, tmp_path: Path, command: str) -> None:
    for address, message in (
        ("s3://no-such-bucket/wal", 'there is no bucket "s3://no-such-bucket"'),
        (url("nothing/here"), f'could not open "{url("nothing/here")}": there is no such object'),
    ):
        done = walproof("wal", command, address, cwd=tmp_path, **s3.environment())
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert "hint: " in done.stderr
        without_credentials(done.stderr)


def test_a_server_that_does_not_answer(s3: S3, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        variables = s3.environment(taken.getsockname()[1]) | {TOTAL: "1s"}
        done = walproof("wal", "verify", url("wal"), cwd=tmp_path, **variables)
    assert done.returncode == 2
    assert f'could not read "{url("wal")}"\ndetail: The connection was refused.' in done.stderr
    without_credentials(done.stderr)


def test_an_interrupted_command_does_not_wait_for_a_store(s3: S3, tmp_path: Path) -> None:
    """The server takes connections and never answers; a request would be given up after a minute."""
    with socket.create_server(("127.0.0.1", 0)) as silent, (tmp_path / "errors").open("w+b") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "walproof", "wal", "stats", url("wal")],
            cwd=tmp_path, env=environment(**s3.environment(silent.getsockname()[1])), stderr=errors,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        silent.accept()[0].close()
        connection, _ = silent.accept()  # it asks again
        with connection:
            process.send_signal(signal.SIGINT)
            assert process.wait(50) == 128 + signal.SIGINT
        assert b"interrupted" in (tmp_path / "errors").read_bytes()


@pytest.mark.parametrize(
    "address",
    [
        "s3://id:canary@bucket/wal",
        "s3://bucket/wal?X-Amz-Signature=canary",
        "s3://bucket/../canary",
        "ftp://x/y",
    ],
)
def test_an_address_that_is_none_is_not_repeated(tmp_path: Path, address: str) -> None:
    done = walproof("wal", "stats", address, cwd=tmp_path)
    assert done.returncode == 2
    assert "walproof: error: " in done.stderr
    assert "canary" not in done.stderr


def test_plain_http_is_for_this_machine(stored: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://canary:canary@192.0.2.1:9000")
    with pytest.raises(WalError, match="a server without encryption") as refused:
        stats(f"s3://{BUCKET}/golden")
    assert "AWS_ALLOW_HTTP=true" in str(refused.value.hint)
    assert "canary" not in f"{refused.value.message}{refused.value.detail}{refused.value.hint}"


@pytest.mark.parametrize(
    ("scheme", "variable", "value"),
    [
        ("s3", "AWS_ENDPOINT_URL", "127.0.0.1:9000"),
        ("s3", "AWS_ENDPOINT_URL", "canary.example:9000"),
        ("s3", "AWS_ENDPOINT_URL", "https:///canary"),
        ("s3", "AWS_ENDPOINT_URL", "https://canary.example:99999"),
        ("s3", "AWS_ENDPOINT_URL_S3", "https://canary example"),
        ("gs", "GOOGLE_BASE_URL", "127.0.0.1:9000"),
        ("az", "AZURE_STORAGE_ENDPOINT", "127.0.0.1:9000"),
    ],
)
def test_an_endpoint_without_a_scheme_is_refused_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, scheme: str, variable: str, value: str
) -> None:
    """The client library would panic at its first request."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(WalError, match=f"{variable} is no address of a server") as refused:
        open_client(scheme, "bucket")
    assert "canary" not in f"{refused.value.message}{refused.value.detail}{refused.value.hint}"


def test_without_the_library(tmp_path: Path) -> None:
    """The extra is not installed: it says how to."""
    program = "import sys; sys.modules['obstore'] = None; sys.modules['obstore.store'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(program)
    python_path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = walproof("wal", "stats", "s3://bucket/wal", cwd=tmp_path, PYTHONPATH=python_path)
    assert done.returncode == 2
    assert 'hint: Install it: pip install "walproof[s3]".' in done.stderr


def test_marks_without_quotes_are_the_same_marks(
    stored: S3, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Azure lists them so and answers with quotes: a damaged segment is damaged there, and not missing."""
    laid = laid_golden(golden, "folder", "", tmp_path)
    stored.upload(laid.root, "unquoted")

    def plan(path: str, _: int) -> Fault | None:
        return None if _is_object(path) else Fault.UNQUOTED

    with faulty(stored, plan) as proxy:
        for name, value in stored.environment(proxy.port).items():
            monkeypatch.setenv(name, value)
        (found,) = verify([url("unquoted")]).archives
    (here,) = verify([str(laid.root)]).archives
    kinds = [problem.kind for problem in found.problems]
    assert "damaged" in kinds
    assert kinds == [problem.kind for problem in here.problems]
