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
