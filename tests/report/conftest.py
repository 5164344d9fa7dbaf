"""Fixtures of tests that open a report."""

from __future__ import annotations

import os
import shutil

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> str:
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no Chromium on PATH: CI must open the report in a browser")
        pytest.skip("no Chromium on PATH")
    return found
