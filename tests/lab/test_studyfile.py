"""A study file with a mistake is refused with file, line and key; every mistake at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from walproof.errors import StudyError
from walproof.facts import Install
from walproof.lab.reading import read_study_file

GOOD = """\
name = "mine"
title = "Does it matter?"

[base]
max_wal_size = "2GB"

[design]
rounds = 4
within = 0.05

[[workload]]
name = "small"
scale = 2
clients = 4
duration = "5s"
warmup = "500ms"

[[workload]]
name = "scripts"
transactions = 10
script = [{ sql = "SELECT 1;", weight = 3 }, { sql = "SELECT 2;" }]

[[variant]]
name = "default"

[[variant]]
name = "async"
settings = { synchronous_commit = false, commit_delay = 10, checkpoint_completion_target = 0.5 }
"""


def _read(tmp_path: Path, text: str) -> str:
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(StudyError) as caught:
        read_study_file(path)
    return f"{caught.value.message}\n{caught.value.detail}\n{caught.value.hint}"


def test_a_good_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(GOOD)
    study = read_study_file(path)
    assert study.workload[0].duration == 5.0
    assert study.workload[0].warmup == 0.5
    assert study.workload[1].script[0].weight == 3
    # TOML's own types become the words of postgresql.conf.
    assert study.variant[1].settings == {
        "synchronous_commit": "off",
        "commit_delay": "10",
        "checkpoint_completion_target": "0.5",
    }


@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        (("rounds = 4", "round = 4"), 8, 'design.round: no such key; is "rounds" meant?'),
        (("rounds = 4", "rounds = 0"), 8, "design.rounds"),
        (("within = 0.05", "within = 5"), 9, "design.within"),
        (
            ('duration = "5s"', 'duration = "5 parsecs"'),
            15,
            'workload[1].duration: invalid duration: "5 parsecs"',
        ),
        (('duration = "5s"', "duration = true"), 15, "workload[1].duration: expected a duration"),
        (("transactions = 10", "transactions = -1"), 20, "workload[2].transactions"),
        (
            ("weight = 3", "weigth = 3"),
            21,
            'workload[2].script[1].weigth: no such key; is "weight" meant?',
        ),
        (
            ("weight = 3", 'text = "SELECT 1;"'),
            21,
            "workload[2].script[1].text: no such key; known are file, sql, weight",
        ),
        (('name = "async"', 'nmae = "async"'), 27, 'variant[2].nmae: no such key; is "name" meant?'),
        (
            ("commit_delay = 10", "commit_delay = [10]"),
            28,
            "variant[2].settings.commit_delay: expected a string",
        ),
        (('max_wal_size = "2GB"', "max_wal_size = { a = 1 }"), 5, "base.max_wal_size: expected a string"),
        (('name = "mine"', 'name = "My Study"'), 1, "name"),
    ],
)
def test_a_mistake_is_shown_with_file_line_and_key(
    tmp_path: Path, change: tuple[str, str], line: int, says: str
) -> None:
    said = _read(tmp_path, GOOD.replace(*change))
    assert f"study.toml:{line}: " in said
    assert says in said


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    said = _read(tmp_path, GOOD.replace("rounds = 4", "rounds = 0").replace("scale = 2", 'scale = "two"'))
    assert "has 2 mistakes" in said
    assert "design.rounds" in said
    assert "workload[1].scale" in said


def test_tables_with_mistakes_are_not_missing(tmp_path: Path) -> None:
    wrong = _read(tmp_path, GOOD.replace("[[workload]]", "[[workload]]\nclinets = 4"))
    assert "has 2 mistakes" in wrong
    assert wrong.count("clinets: no such key") == 2
    none = _read(tmp_path, 'name = "mine"\ntitle = "No load"\nworkload = []\n[[variant]]\nname = "default"\n')
    assert "study.toml:3: workload: expected at least 1" in none


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    assert "title: this key is missing" in _read(tmp_path, GOOD.replace('title = "Does it matter?"', ""))


def test_a_study_whose_load_is_fixed_needs_no_workload(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    for table, name in (
        ("[replay]", "replay"),
        ("[failover]", "failover"),
        ('[load]\ntable = "t"\nddl = "CREATE TABLE t (x int)"', "loading"),
    ):
        path.write_text(f'name = "mine"\ntitle = "?"\n{table}\n[[variant]]\nname = "a"\n')
        assert [workload.name for workload in read_study_file(path).workload] == [name]
        path.write_text(f'{path.read_text()}[[workload]]\nname = "rows"\n')
        assert [workload.name for workload in read_study_file(path).workload] == ["rows"]
    for table in ("[streaming]", "[backup]", "[crash]", ""):
        assert "workload: this key is missing" in _read(tmp_path, f'name = "mine"\ntitle = "?"\n{table}\n')


@pytest.mark.parametrize(
    ("text", "place"),
    [("name = ", "at end of document"), ("a = 1\n[[workload]\n", "line 2"), ("a = 1\na = 2\n", "line 2")],
)
def test_what_is_not_toml_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    said = _read(tmp_path, text)
    assert "is not valid TOML" in said
    assert place in said


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"could not read study file .*absent\.toml"):
        read_study_file(tmp_path / "absent.toml")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StudyError, match="could not read"):
        read_study_file(path)


def test_mistakes_of_every_sort_are_told_at_once(embedded: Install, tmp_path: Path) -> None:
    """Of tables, names, files and settings, in the order of their lines."""
    text = GOOD
    for old, new in (
        ('title = "Does it matter?"', 'title = "?"\nbaseline = "nope"\nagainst = "none"\npg = "embedded"'),
        ('max_wal_size = "2GB"', 'max_wal_sise = "2GB"'),
        ("clients = 4", 'clients = "20"\nsetup = "tables.sql"'),
        ('{ sql = "SELECT 2;" }', '{ file = "no.sql" }'),
        ("commit_delay = 10", 'commit_delay = "soon"'),
        ('name = "async"', 'name = "default"'),
        ('name = "scripts"', 'name = "small"'),
    ):
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(StudyError, match="has 10 mistakes") as caught:
        read_study_file(path, ())
    said = (caught.value.detail or "").replace(f"{tmp_path}/", "").replace("study.toml:", "f:").splitlines()
    assert said == [
        'f:3: baseline: no variant is called "nope"; there are default',
        'f:4: against: no workload is called "none"; there are small',
        "f:5: pg: should be a list, such as [\"embedded\"], got 'embedded'",
        'f:8: base.max_wal_sise: unrecognized configuration parameter "max_wal_sise". '
        "Did you mean max_wal_size, min_wal_size or max_wal_senders?",
        "f:17: workload[1].clients: should be a number, without quotes, got '20'",
        'f:18: workload[1].setup: could not read setup "tables.sql": No such file or directory',
        'f:23: workload[2].name: another workload is called "small", too: give each its own name',
        'f:25: workload[2].script[2].file: could not read script "no.sql": No such file or directory',
        'f:31: variant[2].name: another variant is called "default", too: give each its own name',
        'f:32: variant[2].settings.commit_delay: invalid value for parameter "commit_delay": "soon"',
    ]


FIGURES = """\
[reference]
source = "a page"
[[reference.figure]]
variant = "defualt"
tps = 1.0
[[reference.figure]]
variant = "async"
workload = "smal"
[[reference.figure]]
variant = "default"
workload = "small"
"""


@pytest.mark.parametrize(
    ("text", "first"),
    [(f"{GOOD}\n{FIGURES}", 30), (GOOD.replace("[[workload]]", f"{FIGURES}\n[[workload]]", 1), 11)],
)
def test_published_figures_name_what_the_study_has(tmp_path: Path, text: str, first: int) -> None:
    """Those of a misspelt variant were gone without a word."""
    said = _read(tmp_path, text)
    assert "has 2 mistakes" in said
    variants, workloads = "default, async", "small, scripts"
    for line, key, wrong, names in (
        (first + 3, "[1].variant", 'variant is called "defualt"', variants),
        (first + 7, "[2].workload", 'workload is called "smal"', workloads),
    ):
        assert f"study.toml:{line}: reference.figure{key}: no {wrong}; there are {names}\n" in said


def test_settings_are_looked_at_for_the_installs_that_were_typed(embedded: Install, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        GOOD.replace("commit_delay = 10", 'io_method = "worker"').replace("[base]", "[base]\n", 1)
    )
    read_study_file(path, ("embedded",))
    with pytest.raises(StudyError, match=r"1 mistake$") as caught:
        read_study_file(path, ("embedded-16", "embedded"))
    assert "settings.io_method: PostgreSQL 16." in (caught.value.detail or "")
    path.write_text(path.read_text().replace('name = "async"', 'name = "async"\noptional = true'))
    read_study_file(path, ("embedded-16", "embedded"))


def test_what_is_no_setting_is_no_mistake(embedded: Install, tmp_path: Path) -> None:
    """Conditions of a kind of study are typed among the settings."""
    path = tmp_path / "study.toml"
    text = (
        'name = "mine"\ntitle = "?"\n[replay]\n[[workload]]\nname = "w"\n'
        '[[variant]]\nname = "cold"\nsettings = { cache = "cold", data_checksums = "off" }\n'
    )
    path.write_text(text)
    read_study_file(path, ("embedded",))
    path.write_text(text.replace("[replay]\n", ""))
    with pytest.raises(StudyError, match="2 mistakes"):
        read_study_file(path, ("embedded",))


@pytest.mark.parametrize(
    ("old", "new"),
    [("scale = 2", 'scale = "2"'), ("within = 0.05", 'within = "0.05"'), ("rounds = 4", 'rounds = "4"')],
)
def test_a_number_in_quotes_is_none(tmp_path: Path, old: str, new: str) -> None:
    assert "should be a number, without quotes" in _read(tmp_path, GOOD.replace(old, new))


def test_conditions_of_pairs_are_read_with_everything_else(tmp_path: Path) -> None:
    """They were looked at one after the other, without a line."""
    (tmp_path / "m.toml").write_text(
        'name = "m"\ntitle = "?"\n[streaming]\n[[workload]]\nname = "w"\n'
        '[[variant]]\nname = "a"\nsettings = { distance = "5", bandwidth = "10MBps" }\n'
        '[[variant]]\nname = "b"\nsettings = { replay_cpu = "0.5", cache = "cold" }\n'
    )
    with pytest.raises(StudyError, match="has 4 mistakes") as caught:
        read_study_file(tmp_path / "m.toml")
    lines = str(caught.value.detail).splitlines()
    assert [line.removeprefix(f"{tmp_path}/").split(": ")[:2] for line in lines] == [
        ["m.toml:8", "variant[1].settings.distance"],
        ["m.toml:8", "variant[1].settings.bandwidth"],
        ["m.toml:11", "variant[2].settings.replay_cpu"],
        ["m.toml:11", "variant[2].settings.cache"],
    ]
    assert 'replay_cpu cannot be "0.5". A share of one core, from 1% to 100%' in lines[2]
