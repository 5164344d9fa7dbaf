"""Only what is named may be read: whatever a path says, it is judged by where it leads."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from walproof.errors import AnalysisError, SettingError
from walproof.mcp.roots import Roots


def nothing() -> None:
    """Nobody ends the call."""


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    (folder / "shop" / "deep").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside-too").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return folder


def refused(roots: Roots, path: str) -> str:
    with pytest.raises(SettingError) as caught:
        roots.place(path, nothing)
    return caught.value.message


def test_paths_inside_are_found(inside: Path) -> None:
    roots = Roots([str(inside)])
    assert roots.place("shop", nothing) == str(inside / "shop")
    assert roots.place(str(inside / "shop"), nothing) == str(inside / "shop")
    assert roots.place(str(inside), nothing) == str(inside)
    assert roots.place("shop/../shop/deep", nothing) == str(inside / "shop" / "deep")


def test_paths_outside_are_refused_and_tell_nothing(inside: Path) -> None:
    roots = Roots([str(inside)])
    outside = inside.parent / "outside"
    for path in (
        str(outside), str(outside / "secret"), "../outside", "shop/../../outside/secret", "/etc/passwd",
        str(inside.parent), str(inside.parent / "inside-too"), "/proc/self/environ", "~/.pgpass",
    ):  # fmt: skip
        said = refused(roots, path)
        assert "may be read" in said, said
        assert "secret" not in said.replace(path, "")
    # What is not there is told as what is.
    there, gone = (refused(roots, str(outside / name)) for name in ("secret", "nothing"))
    assert there.replace("secret", "") == gone.replace("nothing", "")
    assert 'there is no "shop/none"' in refused(roots, "shop/none")
    assert "there is no" in refused(roots, "shop/" + "x" * 300)
    for path in ("", " ", "a\0b"):
        assert "not a path" in refused(roots, path)


def test_links_that_lead_out_are_refused(inside: Path) -> None:
    roots = Roots([str(inside)])
    (inside / "out").symlink_to(inside.parent / "outside")
    assert "may be read" in refused(roots, "out")
    assert "may be read" in refused(roots, "out/secret")
    (inside / "shop" / "deep" / "here").symlink_to(inside)
    assert roots.place("shop", nothing) == str(inside / "shop")
    (inside / "shop" / "deep" / "00000001").symlink_to(inside.parent / "outside" / "secret")
    assert "a link that leads out" in refused(roots, "shop")
    both = Roots([str(inside), str(inside.parent / "outside")])
    assert both.place("shop", nothing) == str(inside / "shop")


def test_a_loop_of_links_ends(inside: Path) -> None:
    (inside / "a").symlink_to("b")
    (inside / "b").symlink_to("a")
    assert refused(Roots([str(inside)]), "a/x")
    with suppress(SettingError):  # until Python 3.12 a loop cannot be resolved
        assert Roots([str(inside)]).place(".", nothing) == str(inside)


def test_addresses_are_those_that_were_named() -> None:
    roots = Roots(["s3://backups/shop/"])
    assert roots.place("s3://backups/shop/wal_005", nothing) == "s3://backups/shop/wal_005"
    for path in ("s3://backups/shop2", "s3://backups", "gs://backups/shop", "s3://other/shop", "file:///etc"):
        assert "may be read" in refused(roots, path)
    with pytest.raises(SettingError):
        Roots([]).place("s3://backups/shop", nothing)


def test_a_long_look_for_links_can_be_ended(inside: Path) -> None:
    def over() -> None:
        raise AnalysisError("over")

    with pytest.raises(AnalysisError):
        Roots([str(inside)]).place("shop", over)


def test_roots_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no such folder"):
        Roots([str(tmp_path / "none")])
    with pytest.raises(SettingError) as caught:
        Roots(["host=db password=hunter2"])
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"
