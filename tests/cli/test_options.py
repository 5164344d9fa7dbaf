"""What several subcommands share."""

from __future__ import annotations

from pathlib import Path

from walproof.cli.options import DEFAULT_OUT, command_line


def test_a_command_is_written_as_it_could_be_typed() -> None:
    """It identifies an unfinished run, so that what was not given must not be in it."""
    typed = command_line(
        "run", "durability", quick=True, set_=["a=1", "b=2"], rounds=3, half_width=None, pg=[], seed=0,
        keep_failures=Path("kept"), new=False, out=DEFAULT_OUT,
    )  # fmt: skip
    assert typed == [
        "walproof", "run", "durability", "--quick", "--set", "a=1", "--set", "b=2", "--rounds", "3",
        "--seed", "0", "--keep-failures", "kept",
    ]  # fmt: skip
    assert command_line("compare", out=Path("other")) == ["walproof", "compare", "--out", "other"]
