"""Commands whose options are declared once: what typer, a study and a later command get of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
import typer

from tests.cli.command import walproof
from walproof.cli.compare import CompareOptions, in_full
from walproof.cli.declaration import (
    Override,
    Repeated,
    WorkloadKey,
    command_line,
    declared,
    options_of,
    overrides,
    workload_table,
)
from walproof.cli.gate import Undecided
from walproof.cli.load_advice import LoadAdviceOptions
from walproof.cli.options import parse_sets
from walproof.cli.run import RunOptions, run
from walproof.cli.study_options import HostExecution, check_hosts
from walproof.cli.tune import TuneOptions
from walproof.cli.tune_prepare import prepare
from walproof.errors import DiskError, SettingError, StoreError, StudyError, UnitError
from walproof.facts import Promise, Side
from walproof.lab.asked import Overrides
from walproof.lab.studyfile import WorkloadTable
from walproof.settings.conninfo import parse, shown_parts

CLASSES = (RunOptions, CompareOptions, LoadAdviceOptions)


def test_typer_sees_a_parameter_for_each_field() -> None:
    """In their order, with their defaults; what has none has to be given."""
    parameters = inspect.signature(run).parameters
    assert list(parameters) == [field.name for field in fields(RunOptions)]
    assert parameters["study"].default is inspect.Parameter.empty
    assert parameters["out"].default == Path("walproof-out")
    assert run.__name__ == "run"
    assert (run.__doc__ or "").startswith("Measure a study's variants")


def test_a_command_gets_what_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WALPROOF_OUT", raising=False)
    monkeypatch.delenv("WALPROOF_STORE", raising=False)
    given: list[RunOptions] = []

    def take(options: RunOptions) -> None:
        given.append(options)

    app = typer.Typer(add_completion=False)
    app.command()(declared(take))
    words = ["durability", "--set", "a=1", "--set", "b=2", "--rounds", "3", "--quick", "--on", "disk"]
    app(words, standalone_mode=False)
    expected = RunOptions("durability", quick=True, set_=["a=1", "b=2"], rounds=3, on=Path("disk"))
    assert given == [expected]


def test_a_command_is_written_as_it_could_be_typed() -> None:
    """It identifies an unfinished run, so that what was not given must not be in it."""
    typed = command_line(
        "run",
        RunOptions(
            "durability", quick=True, set_=["a=1", "b=2"], rounds=3, pg=[], seed=0,
            keep_failures=Path("kept"), store="own.sqlite", dry_run=True, json=True,
            new=True,
        ),
    )  # fmt: skip
    assert typed == [
        "walproof", "run", "durability", "--quick", "--set", "a=1", "--set", "b=2", "--rounds", "3",
        "--seed", "0", "--keep-failures", "kept", "--store", "own.sqlite",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("sqlite:////srv/own.sqlite", "sqlite:////srv/own.sqlite"),
        ("postgresql:///?service=facts", "postgresql:///?service=facts"),
        ("postgresql+psycopg://me@db1:5433/facts", "postgresql://me@db1:5433/facts"),
        (
            "postgresql://me:word@db1:5433/facts?sslmode=require",
            "postgresql:///?user=me&host=db1&port=5433&dbname=facts&sslmode=require",
        ),
        (
            "postgresql://me@db1/facts?sslpassword=word&application_name=a%26b",
            "postgresql:///?user=me&host=db1&dbname=facts&application_name=a%26b",
        ),
        ("postgresql://:word@", "postgresql://"),
    ],
)
def test_a_store_is_repeated_without_its_secrets(given: str, kept: str) -> None:
    """What is left of an address names the same place, by libpq's rules."""
    assert command_line("run", RunOptions("durability", store=given))[-2:] == ["--store", kept]
    if kept.startswith("postgresql:"):
        assert parse(kept) == shown_parts(given.replace("+psycopg", ""))


def test_an_address_that_cannot_be_read_is_not_repeated() -> None:
    with pytest.raises(StoreError) as caught:
        command_line("run", RunOptions("durability", store="postgresql://me:a@word@db1/facts"))
    assert "word" not in str(caught.value)


def test_a_comparison_repeats_what_a_later_default_could_change() -> None:
    given = in_full(CompareOptions(["a=1"], out=Path("other")), {"workload": [{}]})
    assert command_line("compare", given) == [
        "walproof", "compare", "--set", "a=1", "--builtin", "tpcb-like", "--scale", "50", "--clients", "20",
        "--threads", "2", "--duration", "10s", "--out", "other",
    ]  # fmt: skip
    loaded = in_full(CompareOptions(["a=1"], load="shop.toml"), {"workload": [{"duration": "5s"}]})
    assert command_line("compare", loaded) == [
        "walproof", "compare", "--set", "a=1", "--load", "shop.toml",
    ]  # fmt: skip
    given_load = LoadAdviceOptions(table="t.sql", may_lose="nothing", ddl_as_superuser=True)
    assert command_line("load-advice", given_load) == [
        "walproof", "load-advice", "--table", "t.sql", "--may-lose", "nothing",
        "--ddl-as-superuser",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", CLASSES)
def test_every_option_is_repeated_by_a_name_that_typer_knows(kind: type[Any]) -> None:
    """Each option has a value; who types the command that repeats them gives the same options."""
    sample: dict[Any, object] = {
        str: "text", int: 3, float: 2.5, bool: True, Path: Path("folder"), list[str]: ["x", "y"],
        list[Path]: [Path("x"), Path("y")], Undecided: Undecided.ok,
    }  # fmt: skip
    values = {option.name: sample[_present(get_args(option.annotation)[0])] for option in options_of(kind)}
    never = [option.name for option in options_of(kind) if Repeated.NEVER in option.marks(Repeated)]
    of_gates = {"junit", "summary", "undecided"} & set(values)
    of_hosts = {"ray", "hosts", "insecure", "listen"} & set(values)
    assert sorted(never) == sorted({"dry_run", "json", "new"} | of_gates | of_hosts)
    given: list[object] = []

    def take(options: Any) -> None:
        given.append(options)

    take.__annotations__ = {"options": kind}
    app = typer.Typer(add_completion=False)
    app.command()(declared(take))
    app(command_line("any", kind(**values))[2:], standalone_mode=False)
    kept = {name: value for name, value in values.items() if name not in never}
    assert given == [kind(**kept)]


def test_what_options_change_in_a_study() -> None:
    assert overrides(RunOptions("durability")) == Overrides()
    assert overrides(
        RunOptions(
            "durability", quick=True, set_=["a=1,b=2", "b=3"], rounds=3, within="3%", budget="30min",
            duration="10s", warmup="500ms", pg=["16", "15"], seed=0, probes="wal, waits", device="doc-000-vm",
            power_cut=4, waldir=Path("wal"), fail_if=["tps < 0.9x"], settle="1min",
        )
    ) == Overrides(
        quick=True, base={"a": "1", "b": "3"}, rounds=3, within=0.03, budget_s=1800.0, duration_s=10.0,
        warmup_s=0.5, pg=("16", "15"), seed=0, probes=("wal", "waits"), device="doc-000-vm",
        power_cut_images=4, waldir=Path("wal"), fail_if=(Promise("tps", Side.BELOW, 0.9),),
        settle_s=60.0,
    )  # fmt: skip
    assert overrides(RunOptions("durability", probes="none")).probes == ()
    with pytest.raises(UnitError, match="invalid share"):
        overrides(RunOptions("durability", within="3"))
    with pytest.raises(SettingError, match="is not a setting"):
        overrides(CompareOptions(["a=1"], base=["b"]))


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("on", "on"),
        ("'4GB'", "4GB"),
        ('"4GB"', "4GB"),
        ("''", ""),
        ("'", "'"),
        ('cp "%p" "/arch/%f"', 'cp "%p" "/arch/%f"'),
        ('"a", "b"', '"a", "b"'),
        ('"$user", public', '"$user", public'),
        ('\'cp "%p" "/arch/%f"\'', 'cp "%p" "/arch/%f"'),
    ],
)
def test_quotes_that_belong_to_a_value_stay(typed: str, value: str) -> None:
    assert parse_sets([f"archive_mode=on,x={typed}"]) == [{"archive_mode": "on", "x": value}]


def test_every_change_to_a_study_has_an_option() -> None:
    filled = {mark.field for option in options_of(RunOptions) for mark in option.marks(Override)}
    assert filled == {field.name for field in fields(Overrides)}


@pytest.mark.parametrize("kind", CLASSES)
def test_what_an_option_changes_is_of_the_type_that_a_study_wants(kind: type[Any]) -> None:
    """Overrides are filled by name, which mypy cannot follow."""
    wanted = get_type_hints(Overrides)
    for option in options_of(kind):
        for mark in option.marks(Override):
            assert _accepts(wanted[mark.field], _read_type(option.annotation, mark.read)), option.name


def test_a_workload_has_the_keys_of_a_study_file() -> None:
    table = workload_table(CompareOptions(["a=1"], rate=2.0, setup=Path("setup.sql"), transactions=7))
    assert table == {
        "setup": "setup.sql", "rate": 2.0, "transactions": 7,
    }  # fmt: skip
    filled = {mark.field for option in options_of(CompareOptions) for mark in option.marks(WorkloadKey)}
    assert filled <= set(WorkloadTable.model_fields)


def _present(annotation: Any) -> Any:
    """The type without None."""
    if isinstance(annotation, UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not NoneType)
    return annotation


def _read_type(annotation: Any, read: Callable[[Any], object]) -> Any:
    """The type that a present value has once it is read."""
    assert get_origin(annotation) is Annotated
    returned = get_type_hints(read, localns={"Promise": Promise})["return"]
    return _present(get_args(annotation)[0] if returned is Any else returned)


def _accepts(wanted: Any, found: Any) -> bool:
    parts = get_args(wanted) if isinstance(wanted, UnionType) else (wanted,)
    return any(
        part == found
        or (get_origin(part) is not tuple and get_args(part) == get_args(found) != ()
            and issubclass(get_origin(found), get_origin(part)))
        for part in parts
    )  # fmt: skip


def test_options_of_hosts_need_a_cluster() -> None:
    """Without it, one machine would have measured, and nobody would have said so."""
    given: tuple[HostExecution, ...] = (
        RunOptions("durability", hosts=4),
        CompareOptions(["a=1"], insecure=True),
    )
    for alone in given:
        with pytest.raises(StudyError, match="--hosts and --insecure are for a study over hosts"):
            check_hosts(alone)
    kept = RunOptions("durability", ray="10.0.0.5:6379", keep_failures=Path("kept"))
    with pytest.raises(StudyError, match="--keep-failures is for one machine"):
        check_hosts(kept)
    check_hosts(RunOptions("durability", ray="10.0.0.5:6379", hosts=4, insecure=True))
    check_hosts(RunOptions("durability", keep_failures=Path("kept")))
    done = walproof("run", "no-such-study", "--hosts", "2", cwd=Path.cwd())
    assert (done.returncode, "Add --ray." in done.stderr) == (2, True)


def test_a_tuning_over_hosts_is_recorded_in_a_folder_that_exists(tmp_path: Path) -> None:
    given = TuneOptions("checkpoints", duration="2s", pg="embedded", ray="h:1", on=tmp_path / "nmve")
    with pytest.raises(DiskError, match="of --on does not exist"):
        prepare(given, ("walproof", "tune"))
