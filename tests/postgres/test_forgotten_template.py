"""Templates that are not needed again are removed, unless another process may be copying them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from walproof.facts import Install
from walproof.postgres import template as templates
from walproof.postgres.workspace import Workspace


def _made(workspace: Workspace, name: str, unused_days: float = 0.0) -> Path:
    template = workspace.templates / name
    (template / "data").mkdir(parents=True)
    (template / "data" / "PG_VERSION").write_text("18\n")
    then = time.time() - unused_days * 86_400
    os.utime(template, (then, then))
    return template


def test_a_template_is_forgotten_when_nobody_else_is_there(tmp_path: Path) -> None:
    with Workspace(tmp_path / "work", None) as workspace:
        template = _made(workspace, "18.4-abc")
        with Workspace(tmp_path / "work", None):
            templates.forget(workspace, template)
            assert template.exists()
        templates.forget(workspace, template)
        assert not template.exists()
        assert list(workspace.folder.iterdir()) == []


def test_a_lock_that_nobody_has_keeps_no_template(tmp_path: Path) -> None:
    """It is all by which a workspace that cannot be removed is found again, for as long as that lasts."""
    with Workspace(tmp_path / "work", None) as workspace:
        template = _made(workspace, "18.4-abc")
        workspace.folder.with_name("walproof-000000000000.lock").write_text("")
        templates.forget(workspace, template)
        assert not template.exists()


def test_templates_that_no_run_asked_for_in_two_weeks_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=100, free=50))
    with Workspace(tmp_path / "work", None) as workspace:
        old, used = _made(workspace, "18.4-old", 14.1), _made(workspace, "18.4-used", 13.9)
        with Workspace(tmp_path / "work", None):
            templates.forget_unused(workspace)
            assert old.exists()
        templates.forget_unused(workspace)
        assert list(workspace.templates.iterdir()) == [used]
        assert list(workspace.folder.iterdir()) == []


def test_where_the_disk_is_nearly_full_those_that_no_run_needs_now_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=100, free=9))
    with Workspace(tmp_path / "work", None) as workspace:
        older, newer = _made(workspace, "18.4-older", 3.0), _made(workspace, "18.4-newer", 2.0)
        asked_now = _made(workspace, "18.4-now")
        templates.forget_unused(workspace, least_free=0.09)
        assert sorted(workspace.templates.iterdir()) == sorted([older, newer, asked_now])
        templates.forget_unused(workspace, least_free=0.12)
        assert not older.exists()
        assert newer.exists()  # the three bytes of the older are enough
        templates.forget_unused(workspace, least_free=1.0)
        assert list(workspace.templates.iterdir()) == [asked_now]


def test_whoever_asks_for_a_template_uses_it(workspace: Workspace, embedded: Install) -> None:
    template = templates.prepare_empty(workspace, embedded, ())
    os.utime(template, (1e9, 1e9))
    assert templates.prepare_empty(workspace, embedded, ()) == template
    assert time.time() - template.stat().st_mtime < 60
