"""Whole configurations as variants of a study."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from walproof.cli.plan import plan_text
from walproof.errors import SettingError, StudyError
from walproof.facts import Install
from walproof.lab.asked import Overrides
from walproof.lab.configurations import read_configurations
from walproof.lab.study import ad_hoc, resolve

LOAD = {"name": "w", "clients": 4, "duration": 10}


def _files(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def test_what_files_say_alike_is_had_by_all_and_the_rest_by_each(embedded: Install, tmp_path: Path) -> None:
    files = _files(
        tmp_path,
        {
            "main.conf": "max_wal_size = 1GB\ncommit_delay = 10\nport = 5433\nwork_mem = 8MB\n",
            "branch.conf": "max_wal_size = 1024MB\nwork_mem = 16MB\nssl = on\n",
        },
    )
    found = read_configurations(files, [embedded])
    assert found.base == {"max_wal_size": "1GB"}
    assert found.own == {
        "main.conf": {"commit_delay": "10", "work_mem": "8MB"},
        "branch.conf": {"work_mem": "16MB"},
    }
    assert found.notes == (
        "Not measured of main.conf: port.",
        "Not measured of branch.conf: ssl.",
    )
    plan = resolve(
        ad_hoc([{"fsync": "off"}], LOAD, configurations=found),
        Overrides(), folder=Path("/somewhere"), given=(embedded,), notes=found.notes,
    )  # fmt: skip
    assert plan.baseline == "main.conf"
    assert plan.base_settings.items() >= {("max_wal_size", "1GB")}
    assert {variant.name: dict(variant.settings) for variant in plan.variants if "," not in variant.name} == {
        "main.conf": {"commit_delay": "10", "work_mem": "8MB"},
        "branch.conf": {"work_mem": "16MB"},
        "fsync=off": {"commit_delay": "10", "work_mem": "8MB", "fsync": "off"},
    }
    assert plan.title == "What do these settings buy, compared with main.conf?"
    assert plan.notes == found.notes
    said = plan_text(plan, ["walproof", "compare"])
    assert "\nNot measured of main.conf: port.\nNot measured of branch.conf: ssl.\n" in said


def test_what_alter_system_has_set_on_a_server_is_named(embedded: Install, tmp_path: Path) -> None:
    """It counts on both sides of a comparison on that machine, and may hide what files differ in."""
    files = _files(tmp_path, {"old.conf": "work_mem = 8MB\n", "new.conf": "work_mem = 9MB\n"})
    by_sql = tmp_path / "postgresql.auto.conf"
    by_sql.write_text("work_mem = 7MB\n")
    found = read_configurations(files, [embedded])
    assert found.base == {"work_mem": "7MB"}
    assert found.notes == tuple(
        f"{name}: what ALTER SYSTEM has set counts last ({by_sql})." for name in ("old.conf", "new.conf")
    )


def test_one_file_takes_the_place_of_the_defaults(embedded: Install, tmp_path: Path) -> None:
    found = read_configurations(_files(tmp_path, {"own.conf": "work_mem = 8MB\n"}), [embedded])
    assert (found.base, found.own) == ({"work_mem": "8MB"}, {"own.conf": {}})


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (("a.conf", "in/b.conf"), ("a.conf", "b.conf")),
        (("old/a.conf", "new/a.conf"), ("old/a.conf", "new/a.conf")),
        (("base/db/etc/a.conf", "this/db/etc/a.conf"), ("base/…/a.conf", "this/…/a.conf")),
        (("a.conf", "b/a.conf"), ("a.conf", "b/a.conf")),
        (("a/x/a.conf", "a/y/a.conf", "b/x/a.conf"), None),
    ],
)
def test_files_of_one_name_are_told_apart_by_their_folders(
    embedded: Install, tmp_path: Path, files: tuple[str, ...], names: tuple[str, ...] | None
) -> None:
    paths = _files(tmp_path, {name: f"work_mem = {at}MB\n" for at, name in enumerate(files, 1)})
    assert read_configurations(paths, [embedded]).names == (names or tuple(map(str, paths)))
    with pytest.raises(StudyError, match="named twice"):
        read_configurations([paths[0], paths[0]], [embedded])


def test_a_pipe_is_named_by_its_place(embedded: Install, tmp_path: Path) -> None:
    (file,) = _files(tmp_path, {"a.conf": "work_mem = 8MB\n"})
    pipe = tmp_path / "63"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=["work_mem = 9MB\n"])
    writing.start()
    assert read_configurations([pipe, file], [embedded]).own == {
        "configuration 1": {"work_mem": "9MB"},
        "a.conf": {"work_mem": "8MB"},
    }
    writing.join()


def test_files_that_do_not_differ_here_are_no_comparison(embedded: Install, tmp_path: Path) -> None:
    files = _files(tmp_path, {"a.conf": "work_mem = 8MB\n", "b.conf": "work_mem = 8192kB\nport = 1\n"})
    found = read_configurations(files, [embedded])
    with pytest.raises(StudyError, match=r'"a\.conf" and "b\.conf" set the same') as caught:
        found.require_differences()
    assert caught.value.detail == "Not measured of b.conf: port."


def _old(embedded: Install) -> Install:
    return dataclasses.replace(embedded, label="13.7", version="13.7", version_num=130007)


def test_a_line_that_only_some_installs_refuse_is_left_out(embedded: Install, tmp_path: Path) -> None:
    lines = "wal_level = minimal\nsummarize_wal = on\nmax_wal_senders = 0\nport = 1\n"
    files = _files(tmp_path, {"a.conf": lines})
    found = read_configurations(files, [embedded, _old(embedded)])
    assert found.base == {"wal_level": "minimal", "max_wal_senders": "0"}
    assert found.notes == (
        "left out: a.conf, summarize_wal = on: PostgreSQL 13.7 would not start with this file "
        '(parameter "summarize_wal" does not exist in PostgreSQL 13).',
        "Not measured of a.conf: port.",
    )
    with pytest.raises(SettingError, match="summarize_wal = on"):
        read_configurations(files, [embedded, _old(embedded)], is_judged=True)


def test_files_that_no_install_would_start_with_are_refused_together(
    embedded: Install, tmp_path: Path
) -> None:
    texts = {
        "good.conf": "work_mem = 8MB\n",
        "a.conf": "commit_delay = 100us\nmax_wal_sise = 3\n",
        # Each install refuses another line of it.
        "b.conf": "summarize_wal = on\nvacuum_cleanup_index_scale_factor = 1\n",
    }
    files = _files(tmp_path, texts)
    with pytest.raises(SettingError) as caught:
        read_configurations(files, [embedded, _old(embedded)])
    assert caught.value.message == f'"{files[1]}" has a line that PostgreSQL refuses: commit_delay = 100us'
    detail = caught.value.detail or ""
    assert 'unrecognized configuration parameter "max_wal_sise"' in detail
    assert f'"{files[2]}": parameter "summarize_wal" does not exist in PostgreSQL 13' in detail
    assert read_configurations(files[:1], [embedded]).notes == ()


def test_what_is_typed_for_all_counts_after_each_file(embedded: Install, tmp_path: Path) -> None:
    """The lines in which files differ are settings of variants, which go over those of all."""
    texts = {"old.conf": "shared_buffers = 16GB\nwork_mem = 8MB\n", "new.conf": "shared_buffers = 32GB\n"}
    found = read_configurations(_files(tmp_path, texts), [embedded]).under({"Shared_Buffers": "128MB"})
    assert found.own == {"old.conf": {"work_mem": "8MB"}, "new.conf": {}}
    assert found.notes == (
        "old.conf: shared_buffers = 16GB is replaced by --base.",
        "new.conf: shared_buffers = 32GB is replaced by --base.",
    )
    found.require_differences()
    with pytest.raises(StudyError, match="set the same") as caught:
        found.under({"work_mem": "4MB"}).require_differences()
    assert "work_mem = 8MB is replaced by --base" in (caught.value.detail or "")
