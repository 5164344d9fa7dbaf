"""What the report says of several PostgreSQL versions before any variant sets anything."""

from __future__ import annotations

from dataclasses import replace

from tests.report.facts import durability
from walproof.facts import Install, Run
from walproof.report.blocks import Paragraph
from walproof.report.setup import between_versions


def sentences(*versions: str, on: bool = False) -> list[str]:
    """Of the durability study's run, as if it had been of these versions."""
    run: Run = durability().run
    installs = tuple(
        Install(version, version, int(version[:2]) * 10000, f"/{version}", "given") for version in versions
    )
    builds = {version: {"wal_compression": "pglz, on, off, lz4, zstd"} for version in versions}
    variants = run.plan.variants
    if on:
        variants = (replace(variants[0], settings={"wal_compression": "ON"}), *variants[1:])
    plan = replace(run.plan, installs=installs, variants=variants)
    blocks = between_versions(replace(run, plan=plan, environment=replace(run.environment, installs=builds)))
    assert all(isinstance(block, Paragraph) and block.terminal for block in blocks)
    return [block.text for block in blocks if isinstance(block, Paragraph)]


def test_one_version_differs_from_nothing() -> None:
    assert sentences("19rc1", on=True) == []


def test_18_beside_19() -> None:
    (defaults,) = sentences("19rc1", "18.6")
    assert "jit (18: on, 19: off)" in defaults
    assert "default_toast_compression (18: pglz, 19: lz4)" in defaults
    _, on = sentences("19rc1", "18.6", on=True)
    assert on.startswith("wal_compression=on is zstd in 19rc1, pglz in 18.6")


def test_two_minors() -> None:
    (said,) = sentences("18.4", "18.6")
    assert said.startswith("WAL of minors of one major version is compared (18.4 and 18.6)")
