"""Words of ``--may-lose``, which every command that has the option reads alike."""

from __future__ import annotations

from typing import get_args

import pytest

from walproof.cli.mcp_advice import AskedAdvice
from walproof.cli.options import LOSSES
from walproof.cli.promises import CLASSES, may_lose
from walproof.errors import SettingError
from walproof.settings.durability import DurabilityClass


def test_the_class_may_be_written_as_reports_name_it() -> None:
    assert may_lose("commits") is may_lose("last commits") is DurabilityClass.LAST_COMMITS
    with pytest.raises(SettingError) as refused:
        may_lose("face")
    assert refused.value.hint == f"It is one of {LOSSES}."


def test_helps_and_tools_name_every_word() -> None:
    assert LOSSES.split(", ") == list(CLASSES)
    assert get_args(AskedAdvice.model_fields["may_lose"].annotation) == tuple(CLASSES)
