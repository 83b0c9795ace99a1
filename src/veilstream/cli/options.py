"""Options of the command line made from a model of settings, so that each is written once."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from veilstream.jobs.model import Job

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout; errors too.")]


def option(*names: str, description: str) -> Any:
    """An option that says its default, if any, in its help."""
    return typer.Option(*names, help=description, show_default=False)


def job_option(name: str, description: str | None = None) -> Any:
    """The option of a setting of ``Job``, described as there unless the command means something narrower by it."""
    return option(_flag(name), description=description or _description(Job.model_fields[name]))


def job_argument(name: str) -> Any:
    """The same for an argument without a name."""
    return typer.Argument(help=_description(Job.model_fields[name]), show_default=False)


def source_of(files: list[str]) -> str | tuple[str, ...]:
    """One file, or all that a shell made of an unquoted glob.

    >>> source_of(["visits.csv"]), source_of(["monday.csv", "tuesday.csv"])
    ('visits.csv', ('monday.csv', 'tuesday.csv'))
    """
    return files[0] if len(files) == 1 else tuple(files)


def settings_of(pairs: list[str]) -> dict[str, str]:
    """``name=value`` pairs as a mapping.

    >>> settings_of(["interval=6"])
    {'interval': '6'}
    """
    from veilstream.errors import InvalidInputError

    settings: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidInputError(name="set", value=pair, limit="write it as name=value, e.g. interval=6")
        settings[name.strip()] = value.strip()
    return settings


def takes_settings_of(model: type[BaseModel], argument: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command one option for every field of ``model``, and its field ``argument`` as an argument.

    The command takes what was given as its first parameter, a mapping from names of settings; its other parameters
    are options of its own.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        made = [_parameter(name, field, argument) for name, field in fields.items()]

        def run(**given: Any) -> int:
            chosen = {name: _given(fields[name], given.pop(name)) for name in fields}
            return command({name: value for name, value in chosen.items() if value is not None}, **given)

        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        signature = inspect.Signature([p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*made, *own)])
        run.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
        run.__signature__ = signature  # type: ignore[attr-defined]
        return run

    return decorate


def _parameter(name: str, field: FieldInfo, argument: str) -> inspect.Parameter:
    kind = _kind(field)
    if name == argument:
        given: Any = Annotated[kind | None, typer.Argument(help=_description(field), show_default=False)]
    elif kind is bool and field.default is False:
        return inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, option(_flag(name), description=_description(field))],
        )
    elif kind is bool:
        both = f"{_flag(name)}/{_flag(f'no_{name}')}"
        given = Annotated[bool | None, option(both, description=_description(field))]
    else:
        given = Annotated[kind | None, option(_flag(name), description=_description(field))]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=given)


def _kind(field: FieldInfo) -> Any:
    """What the command line reads for a field: the model itself turns text into what it needs."""
    kinds = [field.annotation]
    if get_origin(field.annotation) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
    made_of = [get_origin(kind) for kind in kinds]
    if len(kinds) == 1 and made_of == [tuple] and get_args(kinds[0])[-1] is not Ellipsis:
        return tuple[str, str]
    if tuple in made_of or (dict in made_of and str not in kinds):
        return list[str]
    return kinds[0] if len(kinds) == 1 and kinds[0] in (bool, int, float) else str


def _given(field: FieldInfo, value: Any) -> Any:
    if value is None or (value is False and field.default is False) or value == []:
        return None
    if isinstance(value, list):
        texts = cast(list[str], value)
        return settings_of(texts) if get_origin(field.annotation) is dict else tuple(texts)
    return value


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _description(field: FieldInfo) -> str:
    assert field.description is not None
    return field.description


DryRun = Annotated[bool, typer.Option("--dry-run", help="Show cost and promise; read no private data, write nothing.")]
Delimiter = Annotated[str | None, job_option("delimiter")]
Encoding = Annotated[str | None, job_option("encoding")]
Decimal = Annotated[Literal[".", ","], job_option("decimal")]
RowPerPerson = Annotated[bool, job_option("row_per_person")]
Files = Annotated[list[str], job_argument("file")]


def require_people(user: str | None, row_per_person: bool) -> None:
    """Refuse a command that says neither which rows are one person's nor that all are of different people, or both."""
    from veilstream.errors import InvalidInputError

    if (user is None) != row_per_person:
        raise InvalidInputError(
            name="user",
            limit="name the column of people's ids, or declare that every row is another person, but not both",
            outcome="nothing was read",
            next_step="give either --user COLUMN or --row-per-person",
        )


def check_level(level: float) -> None:
    """Refuse a level of intervals that is no probability."""
    from veilstream.errors import InvalidInputError

    if not 0 < level < 1:
        raise InvalidInputError(
            name="level",
            value=level,
            limit="a probability between 0 and 1 is needed",
            outcome="nothing was read",
            next_step="write it as 0.95",
        )


def moments_of(start: str, end: str, every: str) -> tuple[str | int, str | int, str | int]:
    """Start, end and length of a step: dates and a duration, or whole numbers where the step is one.

    >>> moments_of("0", "24", "1"), moments_of("2024-01-01", "2024-01-02", "1h")
    ((0, 24, 1), ('2024-01-01', '2024-01-02', '1h'))
    """
    from veilstream.errors import InvalidInputError

    if not every.isdecimal():
        return start, end, every
    try:
        return int(start), int(end), int(every)
    except ValueError:
        raise InvalidInputError(
            name="every",
            value=every,
            limit="steps are counted in whole numbers here, and the start or the end is none",
            outcome="nothing was read",
            next_step="give whole numbers as --start and --end, or a duration such as 1h as --every",
        ) from None
