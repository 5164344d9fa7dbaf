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
