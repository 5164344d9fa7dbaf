"""Programs get the variables that are listed, and those that the user names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import walproof
from walproof.privilege.environment import (
    child_environment,
    client_environment,
    foreign_environment,
    terminal_environment,
)

SOURCE = Path(walproof.__file__).parent
SECRETS = (
    "AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "WALPROOF_STORE",
    "PGPASSWORD", "PGSERVICE", "GITHUB_TOKEN", "VAULT_TOKEN", "DATABASE_URL", "SSH_AUTH_SOCK",
    "NEXUS_PASSWORD",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SECRETS, "MAVEN_OPTS", "https_proxy", "npm_config_registry", "KRB5CCNAME", "TERM", "LANG"):
        monkeypatch.setenv(name, "x")
    monkeypatch.delenv("WALPROOF_KEEP_ENV", raising=False)


def test_no_program_gets_what_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = (child_environment(), terminal_environment({}), foreign_environment({}), client_environment())
    for kind in kinds:
        assert not set(SECRETS) & set(kind)
        assert "PATH" in kind
    child, terminal, foreign, client = kinds
    assert {"MAVEN_OPTS", "https_proxy", "npm_config_registry"} <= set(client)
    assert not {"MAVEN_OPTS", "https_proxy", "TERM", "KRB5CCNAME"} & set(child)
    assert (child["LC_ALL"], child["TZ"]) == ("C", "UTC")
    assert "TERM" in terminal
    assert "KRB5CCNAME" in foreign
    monkeypatch.setenv("WALPROOF_KEEP_ENV", "NEXUS_PASSWORD, VAULT_TOKEN")
    assert {"NEXUS_PASSWORD", "VAULT_TOKEN"} <= set(child_environment()) & set(client_environment())
    assert child_environment({"MORE": "1"})["MORE"] == "1"


def test_helpers_find_walproof_from_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their present folder is /. An empty name, which stands for the present folder, is left out."""
    monkeypatch.setenv("PYTHONPATH", "src::/opt/lib")
    assert child_environment()["PYTHONPATH"] == f"{Path.cwd() / 'src'}:/opt/lib"


def test_every_program_is_started_with_such_an_environment() -> None:
    """In the whole source: an ``env`` that one of these functions made."""
    kinds = ("child_environment(", "terminal_environment(", "foreign_environment(", "client_environment(")
    found = []
    calls = 0
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "subprocess.run", "subprocess.Popen", "subprocess.check_output", "subprocess.call",
            ):  # fmt: skip
                calls += 1
                given = [ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg == "env"]
                if not any(expression.startswith(kinds) for expression in given):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}: env={given}")
    assert not found, "\n".join(found)
    assert calls > 20


def test_few_read_the_environment() -> None:
    """Who reads all of it could hand it on."""
    allowed = {"privilege/environment.py", "cli/app.py", "cli/defect.py"}
    allowed |= {"hosts/cluster.py", "hosts/knock.py"}  # they write what Ray reads there
    allowed |= {"cli/mcp_reach.py"}  # looks for secrets, to take them out of answers
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) == "os.environ"
        and f"{ast.unparse(node)}.get(" not in path.read_text(encoding="utf-8")
    }
    assert found <= allowed
