"""Alert rules, dashboard, unit and container file: they parse, and every metric that they name exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from typer.main import get_command

from walproof.advise.watch.concern import Severity
from walproof.cli.app import app
from walproof.report.watch.prometheus import METRICS

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "examples" / "watch"
NAMES = {row.name for row in METRICS}
LABELS = {label for row in METRICS for label in row.labels} | {"server"}


def named(text: str) -> set[str]:
    return set(re.findall(r"\bwalproof_[a-z_]+", text))


def test_alert_rules_are_about_metrics_that_exist() -> None:
    rules = [
        rule
        for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
        for rule in group["rules"]
    ]
    assert len(rules) == len({rule["alert"] for rule in rules}) >= 8
    for rule in rules:
        assert named(rule["expr"]), rule
        assert named(rule["expr"]) <= NAMES, named(rule["expr"]) - NAMES
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        used = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
        assert set(used) <= LABELS, rule


def test_there_is_an_alert_of_concerns_of_every_severity() -> None:
    """Commits that hang, a replay that is paused, a prepared transaction: other metrics do not tell them."""
    text = (FOLDER / "alerts.yml").read_text()
    for severity in Severity:
        assert f'walproof_concern{{severity="{severity.name.lower()}"' in text
    # Left out of the rest is what has a rule of its own.
    (others,) = re.findall(r'concern!~"([^"]+)"', text)
    own = set(re.findall(r'concern="([^"]+)"', text))
    assert set(others.split("|")) == own | {"crash recovery"}
    assert "walproof_crash_recovery_target_seconds" in text


def test_the_dashboard_shows_metrics_that_exist() -> None:
    board = json.loads((FOLDER / "dashboard.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert set().union(*map(named, asked)) <= NAMES
    assert len(board["panels"]) == len({panel["id"] for panel in board["panels"]})
    legends = [target["legendFormat"] for panel in board["panels"] for target in panel["targets"]]
    assert {label for text in legends for label in re.findall(r"{{(\w+)}}", text)} <= LABELS


def test_the_page_lists_every_metric() -> None:
    listed = named((ROOT / "docs" / "watch.md").read_text())
    assert listed >= NAMES, NAMES - listed
    assert listed - NAMES == set()


@pytest.mark.parametrize("name", ["walproof-watch.service", "Containerfile"])
def test_options_of_unit_and_container_exist(name: str) -> None:
    text = (FOLDER / name).read_text()
    begins = ("ExecStart=", "ENTRYPOINT ")
    command = next(line for line in text.splitlines() if line.startswith(begins))
    watch = get_command(app).get_command(None, "watch")  # type: ignore[attr-defined]
    flags = {flag for parameter in watch.params for flag in parameter.opts}
    given = set(re.findall(r"--[a-z-]+", command))
    assert {"--listen", "--plain"} <= given <= flags


def test_the_container_file_names_files_of_the_project() -> None:
    """Its build copies the project to /src."""
    named_paths = re.findall(r"(?<=\s)/src/(\S+)", (FOLDER / "Containerfile").read_text())
    assert named_paths
    assert [path for path in named_paths if not (ROOT / path).is_file()] == []


def test_a_stop_of_the_unit_is_no_failure() -> None:
    """At SIGTERM the command exits with a status of its own, which systemd does not know."""
    assert "SuccessExitStatus=143\n" in (FOLDER / "walproof-watch.service").read_text()


def test_the_unit_can_read_its_service_file_and_passwords() -> None:
    """libpq ignores a password file that others may read, and systemd draws the number of a dynamic user at
    each start."""
    unit = (FOLDER / "walproof-watch.service").read_text()
    (variables,) = re.findall(r"^Environment=(.*)$", unit, re.MULTILINE)
    assert dict(word.split("=", 1) for word in variables.split()) == {
        "PGSERVICEFILE": "/etc/walproof/pg_service.conf",
        "PGPASSFILE": "/etc/walproof/pgpass",
    }
    (user,) = re.findall(r"^User=(.*)$", unit, re.MULTILINE)
    assert f"install -m 600 -o {user} -g {user} pg_service.conf pgpass /etc/walproof/" in unit
    assert user != "walproof", "servers of studies run as that one"
    assert "DynamicUser" not in unit
    assert "StartLimitBurst=" in unit, "a mistake would be tried for ever"


def test_the_port_is_not_that_of_postgres_exporter() -> None:
    """Whoever has Prometheus for PostgreSQL has that one, on the same machine."""
    pages = (ROOT / "docs" / "watch.md", ROOT / "docs" / "tutorials" / "watch-a-server.md")
    for path in (*pages, FOLDER / "walproof-watch.service", FOLDER / "Containerfile"):
        ports = set(re.findall(r"--listen\W+[\d.]+:(\d+)", path.read_text()))
        assert ports == {"8433"}, path


def test_an_image_is_built_without_what_was_built_here() -> None:
    left_out = (ROOT / ".dockerignore").read_text().splitlines()
    assert {".git", ".venv", "target", "walproof-out"} <= set(left_out)
