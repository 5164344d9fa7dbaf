"""Both ends of a slice: transactions by the time at which they ended, CPU of what is there at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Never, cast

import psycopg
import pytest

from tests.probe.conftest import Server
from walproof.errors import ProbeError
from walproof.probe.processes import children
from walproof.probe.slices import Counted, count_transactions, cpu_spent_s, read_edge, server_cpu_ns

T0 = 1_700_000_000


def _line(client: int, latency_us: int | str, ended_us: int) -> str:
    return f"{client} 1 {latency_us} 0 {T0 + ended_us // 1_000_000} {ended_us % 1_000_000}\n"


def test_a_transaction_belongs_to_the_slice_in_which_it_ended(tmp_path: Path) -> None:
    """Logs of two threads are not in the order of time; what failed or was skipped is no transaction."""
    first, second = tmp_path / "pgbench_log.1", tmp_path / "pgbench_log.1.1"
    first.write_text(_line(0, 2000, 100_000) + _line(0, 4000, 1_999_999) + _line(0, "skipped", 1_500_000))
    second.write_text(_line(1, 8000, 1_000_000) + _line(1, "failed", 1_400_000) + _line(1, 6000, 2_000_000))
    stretches = [(T0 + 0.0, T0 + 1.0), (T0 + 1.0, T0 + 2.0), (T0 + 2.0, T0 + 3.0), (T0 + 3.0, T0 + 4.0)]
    first_count, two, three, none = count_transactions([first, second], stretches)
    assert (first_count.transactions, first_count.latency_ms_sum, first_count.latency_ms_p50) == (1, 2.0, 2.0)
    assert (two.transactions, two.latency_ms_sum, two.latency_ms_p50) == (2, 12.0, 6.0)
    assert (first_count.failed, two.failed) == (0, 1), "what was skipped was never begun"
    assert (three.transactions, three.latency_ms_p99) == (1, 6.0)
    assert none == Counted(0, 0.0, None, None, None)


def test_logs_without_a_transaction_are_complained_of(tmp_path: Path) -> None:
    (tmp_path / "pgbench_log.1").write_text("")
    with pytest.raises(ProbeError, match="no transaction"):
        count_transactions([tmp_path / "pgbench_log.1"], [(T0, T0 + 1.0)])


def test_cpu_of_processes_that_come_and_go() -> None:
    assert cpu_spent_s({1: 100, 2: 50}, {1: 1_000_000_100, 3: 500_000_000}) == pytest.approx(1.5)
    assert cpu_spent_s({}, {1: 5}) is None, "the kernel does not tell"


class _Lost:
    def execute(self, _: str) -> Never:
        raise psycopg.OperationalError("consuming input failed: server closed the connection\n\tbefore it\n")


def test_a_server_that_went_away_is_told_in_one_line() -> None:
    with pytest.raises(ProbeError) as caught:
        read_edge(cast("psycopg.Connection[tuple[object, ...]]", _Lost()))
    assert caught.value.message.endswith("input failed: server closed the connection before it")


@pytest.mark.live
def test_the_ends_of_a_slice_on_a_real_server(server: Server) -> None:
    """Clock, position and CPU never go back, and WAL that is written moves the position."""
    pid = server.process.pid
    with server.connect() as connection:
        before, cpu = read_edge(connection), server_cpu_ns(pid)
        connection.execute("CREATE TABLE slice_edge AS SELECT generate_series(1, 1000) AS id")
        after, later = read_edge(connection), server_cpu_ns(pid)
        connection.execute("DROP TABLE slice_edge")
    assert before.at < after.at
    assert after.lsn - before.lsn > 30_000, "a thousand rows"
    assert set(cpu) & set(children(pid))
    spent_s = cpu_spent_s(cpu, later)
    assert spent_s is not None
    assert spent_s > 0
