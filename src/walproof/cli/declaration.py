"""Options that are declared once: as the fields of a frozen dataclass, one class a command.

    @dataclass(frozen=True, slots=True)
    class Options:
        rounds: study_options.Rounds = None

    @declared
    def run(given: Options) -> None: ...

A field's annotation says all there is to know about its option: what typer reads (its flag, its help), what
it changes (`Override`, `WorkloadKey`), and whether and how the command that repeats a run has it (`Repeated`,
`RepeatedAs`). The parameters that typer looks at, what a study is given, and that command are derived from
it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from walproof.lab.asked import Overrides

Options = TypeVar("Options", bound="DataclassInstance")


def _as_given(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Override:
    """Part of an option's annotation: the field of `Overrides` that it fills, and what reads its value."""

    field: str
    read: Callable[[Any], object] = _as_given


@dataclass(frozen=True, slots=True)
class WorkloadKey:
    """The same for a key of a study's ``[[workload]]`` table."""

    field: str
    read: Callable[[Any], object] = _as_given


@dataclass(frozen=True, slots=True)
class RepeatedAs:
    """Part of an option's annotation: what the command that repeats a run has in place of its value."""

    say: Callable[[str], str]


class Repeated(Enum):
    """Part of an option's annotation: when the command that repeats a run has the option.

    Without it: whenever there is a value, a default too, so that a later default changes nothing.
    """

    CHANGED = "where it is not the default"
    NEVER = "never: it is no part of what is measured, or is not to be stored"


@dataclass(frozen=True, slots=True)
class Option:
    """One field of a class of options."""

    name: str
    annotation: Any
    default: Any
    """`inspect.Parameter.empty` where the option has to be given."""

    @property
    def flag(self) -> str | None:
        """The option's long name; None for an argument, which has none."""
        (declared,) = (
            part for part in get_args(self.annotation) if isinstance(part, typer.models.ParameterInfo)
        )
        if isinstance(declared, typer.models.ArgumentInfo):
            return None
        # typer keeps the first name of an annotated option where a default would be.
        names = [declared.default, *(declared.param_decls or ())]
        return next(
            name.partition("/")[0] for name in names if isinstance(name, str) and name.startswith("--")
        )

    def marks(self, kind: type[Any]) -> list[Any]:
        """The marks of that kind in the annotation."""
        return [mark for mark in get_args(self.annotation)[1:] if isinstance(mark, kind)]


def options_of(kind: type[DataclassInstance]) -> Iterator[Option]:
    """The fields of a class of options, in the order of ``--help``."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        assert get_origin(hints[field.name]) is Annotated, f"{kind.__name__}.{field.name} declares no option"
        yield Option(field.name, hints[field.name], default)


def declared(function: Callable[[Options], None]) -> Callable[..., None]:
    """A command of a function that takes a class of options: typer sees a parameter for each field."""
    (kind,) = (hint for name, hint in get_type_hints(function).items() if name != "return")

    @wraps(function)
    def command(**given: Any) -> None:
        function(kind(**given))

    parameters = [
        inspect.Parameter(
            option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=option.annotation
        )
        for option in options_of(kind)
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    # Annotations are asked for by name too.
    command.__annotations__ = {option.name: option.annotation for option in options_of(kind)}
    return command


def overrides(given: DataclassInstance) -> Overrides:
    """What the options change in a study; those that were not given change nothing.

    Raises what reading their values raises: UnitError, SettingError.
    """
    from walproof.lab.asked import Overrides

    return Overrides(**_filled(given, Override))


def workload_table(given: DataclassInstance) -> dict[str, object]:
    """The keys of a ``[[workload]]`` table that options give."""
    return _filled(given, WorkloadKey)


def command_line(command: str, given: DataclassInstance) -> list[str]:
    """The command that repeats a run: arguments and options in their order, as `Repeated` says.

    What has no value (None, False) is left out; True has only its flag; of a list each value has the flag
    before it. Raises what `RepeatedAs` raises: StoreError.
    """
    words = ["walproof", command]
    for option in options_of(type(given)):
        value = getattr(given, option.name)
        repeated = option.marks(Repeated)
        if Repeated.NEVER in repeated or (Repeated.CHANGED in repeated and value == option.default):
            continue
        for mark in option.marks(RepeatedAs):
            value = None if value is None else mark.say(value)
        for each in value if isinstance(value, list) else [value]:
            if each is True:
                words += [str(option.flag)]
            elif each is not None and each is not False:
                words += [str(each)] if option.flag is None else [option.flag, str(each)]
    return words


def _filled(given: DataclassInstance, kind: type[Override] | type[WorkloadKey]) -> dict[str, Any]:
    return {
        mark.field: mark.read(value)
        for option in options_of(type(given))
        for mark in option.marks(kind)
        if (value := getattr(given, option.name)) is not None
    }
