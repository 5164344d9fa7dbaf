"""Which of the user's own lines stay on their server beside an answer that does not have them."""

from __future__ import annotations

import pytest

from walproof.advise.tune.own_lines import broken_as_pasted, lines_left
from walproof.errors import SettingError
from walproof.facts.tuning import DEFAULT, Candidate, CandidatePrediction, Limit, RuledOut

COMPRESSED = Candidate.of({"wal_compression": "lz4"})
_MOST_GB = 4.0


def _judge(candidate: Candidate) -> tuple[CandidatePrediction, tuple[RuledOut, ...]]:
    """10 GB of WAL an hour; a crash may come 4 GB after a redo point. Shorter cycles write more WAL."""
    conf = candidate.conf
    size = float(conf.get("max_wal_size", "1GB").removesuffix("GB"))
    hours = {"30s": 1 / 120, "5min": 1 / 12, "1h": 1.0}[conf.get("checkpoint_timeout", "5min")]
    distance = min(size, 10 * hours)
    broken = []
    if distance > _MOST_GB:
        broken.append(RuledOut(Limit.RECOVERY_TARGET, f"{distance:.0f} GB", "4 GB"))
    if "shared_buffers" in conf:
        broken.append(RuledOut(Limit.MEMORY, "64 GB", "8 GB"))
    return CandidatePrediction(1000 + 100 / distance, distance * 2**30, distance), tuple(broken)


def _left(own: dict[str, str], conf: Candidate = COMPRESSED, keep: dict[str, str] | None = None) -> set[str]:
    return set(lines_left(own, keep or {}, conf, _judge, lambda name, _: name == "shared_buffers", 0.02))


@pytest.mark.parametrize("conf", [DEFAULT, COMPRESSED])
def test_lines_that_only_together_break_a_promise_do_not_both_stay(conf: Candidate) -> None:
    """16 GB are within it by the default's 5 minutes, an hour by the default's 1 GB."""
    assert _left({"max_wal_size": "16GB"}, conf) == {"max_wal_size"}
    assert _left({"checkpoint_timeout": "1h"}, conf) == {"checkpoint_timeout"}
    both = {"max_wal_size": "16GB", "checkpoint_timeout": "1h", "min_wal_size": "1GB"}
    assert _left(both, conf) == {"max_wal_size", "min_wal_size"}


def test_a_line_that_would_write_more_wal_goes() -> None:
    assert _left({"checkpoint_timeout": "30s"}) == set()


def test_what_windows_show_goes_and_what_this_machine_has_no_memory_for_stays() -> None:
    own = {"wal_compression": "pglz", "wal_buffers": "64MB", "shared_buffers": "60GB"}
    assert _left(own) == {"shared_buffers"}


def test_what_every_configuration_was_given_is_not_left_to_the_users_own_line() -> None:
    assert _left({"max_wal_size": "16GB"}, keep={"max_wal_size": "2GB"}) == set()


def test_compression_whose_method_only_the_build_knows_is_not_judged() -> None:
    def judge(candidate: Candidate) -> tuple[CandidatePrediction, tuple[RuledOut, ...]]:
        if candidate.conf.get("wal_compression") == "on":
            raise SettingError("what wal_compression=on means is up to the build from PostgreSQL 19 on")
        return _judge(candidate)

    own = {"wal_compression": "on", "max_wal_size": "16GB"}
    assert set(lines_left(own, {}, DEFAULT, judge, lambda *_: False, 0.02)) == {"max_wal_size"}


def test_what_the_platform_leaves_out_is_judged_as_the_server_has_it() -> None:
    """max_wal_size = 16GB keeps the promise by the default's 5 minutes, which the platform does not set."""
    own = {"checkpoint_timeout": "1h"}
    advised = Candidate.of({"max_wal_size": "16GB"})
    whole = {"max_wal_size": "16GB", "checkpoint_timeout": "5min"}
    assert broken_as_pasted(own, whole, advised, _judge, is_memory_promised=True) == ()
    (broken,) = broken_as_pasted(own, {"max_wal_size": "16GB"}, advised, _judge, is_memory_promised=False)
    assert (broken.limit, broken.predicted) == (Limit.RECOVERY_TARGET, "10 GB")
    # Nothing is pasted, or the answer itself breaks it, which is said elsewhere.
    assert (
        broken_as_pasted(
            {"checkpoint_timeout": "1h", "max_wal_size": "16GB"}, {}, advised, _judge, is_memory_promised=True
        )
        == ()
    )
    both = Candidate.of({"max_wal_size": "16GB", "checkpoint_timeout": "1h"})
    assert broken_as_pasted({}, both.conf, both, _judge, is_memory_promised=True) == ()


@pytest.mark.parametrize("is_memory_promised", [False, True])
def test_memory_is_a_promise_where_somebody_named_it(is_memory_promised: bool) -> None:
    """The platform refuses the line that takes shared_buffers back to the default."""
    own = {"shared_buffers": "16GB"}
    broken = broken_as_pasted(own, COMPRESSED.conf, COMPRESSED, _judge, is_memory_promised=is_memory_promised)
    assert [each.limit for each in broken] == ([Limit.MEMORY] if is_memory_promised else [])
