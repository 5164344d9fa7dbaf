"""A template that is not needed again is removed, unless another process may be copying it."""

from __future__ import annotations

from pathlib import Path

from walproof.postgres import template as templates
from walproof.postgres.workspace import Workspace


def test_a_template_is_forgotten_when_nobody_else_is_there(tmp_path: Path) -> None:
    with Workspace(tmp_path / "work", None) as workspace:
        template = workspace.templates / "18.4-abc"
        (template / "data").mkdir(parents=True)
        with Workspace(tmp_path / "work", None):
            templates.forget(workspace, template)
            assert template.exists()
        templates.forget(workspace, template)
        assert not template.exists()
        assert list(workspace.folder.iterdir()) == []
