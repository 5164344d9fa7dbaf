"""What is refused as a pair, without a server."""

from __future__ import annotations

import pytest

from walproof.errors import ProbeError
from walproof.probe.pair_check import Identity, check_pair


def test_a_role_keeps_its_name_in_what_is_to_be_run() -> None:
    side = Identity("primary", "18.4", 180004, 1, False, False, 'a" b', 0.0, 16 << 20, False)
    with pytest.raises(ProbeError) as raised:
        check_pair(side, side)
    assert raised.value.hint == 'On the primary: GRANT pg_monitor TO "a"" b";'


def _side(which: str, timeline: int | None, started_at: float, *, is_in_recovery: bool) -> Identity:
    return Identity(
        which, "18.4", 180004, 1, is_in_recovery, True, "w", started_at, 16 << 20, True, timeline
    )  # fmt: skip


def test_two_primaries_of_one_system_are_said_to_be_that() -> None:
    old = _side("primary", 1, 1.0, is_in_recovery=False)
    with pytest.raises(ProbeError, match="there are two primaries of one system") as raised:
        check_pair(old, _side("standby", 2, 2.0, is_in_recovery=False))
    assert "writes timeline 1, that of --standby timeline 2" in str(raised.value.detail)


def test_a_standby_on_a_later_timeline_follows_another_primary() -> None:
    old = _side("primary", 1, 1.0, is_in_recovery=False)
    with pytest.raises(ProbeError, match="the standby follows another primary"):
        check_pair(old, _side("standby", 2, 2.0, is_in_recovery=True))
    # A standby may be a timeline behind: it has not come to the switch yet, or does not tell.
    promoted = _side("primary", 3, 1.0, is_in_recovery=False)
    for timeline in (2, 3, None):
        check_pair(promoted, _side("standby", timeline, 2.0, is_in_recovery=True))


@pytest.mark.parametrize(
    ("upstream", "standby", "message"),
    [
        (1, 2, "the standby has been promoted"),
        (1, 1, "--primary names a standby and --standby a primary"),
        (None, None, "--primary names a standby and --standby a primary"),
    ],
)
def test_a_promoted_standby_of_a_cascade_is_told_from_swapped_options(
    upstream: int | None, standby: int | None, message: str
) -> None:
    follows = Identity("primary", "18.4", 180004, 1, True, True, "w", 0.0, 16 << 20, True, upstream)
    writes = Identity("standby", "18.4", 180004, 1, False, True, "w", 0.0, 16 << 20, True, standby)
    with pytest.raises(ProbeError) as raised:
        check_pair(follows, writes)
    assert raised.value.message == message
