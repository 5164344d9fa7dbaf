"""Names of segments say where these begin; every place is in one of them."""

from __future__ import annotations

import pytest

from walproof.units import Lsn
from walproof.wal.segment import segment_holding, segment_name, segment_number, segment_start

MB = 1 << 20


@pytest.mark.parametrize("size", [MB, 16 * MB, 1024 * MB])
@pytest.mark.parametrize("number", [0, 1, 3, 4, 255, 4095, 4096, 70_000])
def test_a_name_says_which_segment_it_is(number: int, size: int) -> None:
    start = Lsn(number * size)
    name = segment_name(start, 7, size)
    assert segment_number(name, size) == number
    assert segment_start(name, size) == start


def test_names_count_up_over_the_end_of_a_file_of_4_gb() -> None:
    assert segment_number("0000000100000000000000FF", 16 * MB) == 255
    assert segment_number("000000010000000100000000", 16 * MB) == 256
    assert segment_start("000000020000000100000003", 16 * MB) == (1 << 32) + 48 * MB


def test_a_place_is_in_the_segment_that_begins_before_it() -> None:
    size = 16 * MB
    assert [segment_holding(at, size) for at in (0, size - 1, size, 5 * size + 9)] == [0, 0, size, 5 * size]
    assert str(segment_holding((3 << 32) + 5, size)) == "3/0"
