"""Mechanisms by name, with parameters given as text."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from fractions import Fraction
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.protocols import HistogramMechanism, StreamMechanism
from veilstream.mechanisms.streams import STREAMS

HISTOGRAM = "histogram"


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """A field of a mechanism's dataclass."""

    name: str
    kind: Any
    default: str

    @property
    def is_histogram(self) -> bool:
        return self.kind is HistogramMechanism

    def __str__(self) -> str:
        return f"{self.name} ({kind_name(self.kind)}, default {self.default})"


def parameters(mechanism: type[Any]) -> list[Parameter]:
    """The parameters of a mechanism, in the order of its fields.

    >>> [str(p) for p in parameters(STREAMS["fixed-rate"]) if not p.is_histogram]
    ['interval (int, default 10)', 'horizon (int or none, default none)']
    """
    hints = typing.get_type_hints(mechanism)
    return [
        Parameter(field.name, hints[field.name], _default(field))
        for field in dataclasses.fields(mechanism)
        if field.init
    ]


def build_mechanism(
    name: str, histogram: str | None = None, settings: Mapping[str, Any] | None = None
) -> StreamMechanism[Any]:
    """The stream mechanism called ``name``, its release step called ``histogram``.

    ``a.b`` among the settings is parameter ``b`` of the part that is parameter ``a``; lists are written as in JSON.

    >>> build_mechanism("fixed-rate", "geometric", {"interval": "6"})
    FixedRate(interval=6, histogram=Geometric(), horizon=None)
    >>> build_mechanism("unifrom")
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: mechanism 'unifrom': unknown, did you mean 'uniform'? The mechanisms are
    uniform, ...; nothing was released
    """
    stream = find_mechanism(name)
    given = dict(settings or {})
    if histogram is not None:
        if not any(parameter.is_histogram for parameter in parameters(stream)):
            raise InvalidInputError(name="histogram", value=histogram, limit=f"mechanism '{name}' takes none")
        given[HISTOGRAM] = histogram
    made: StreamMechanism[Any] = _make(stream, name, given)
    return made


def find_mechanism(name: str) -> type[StreamMechanism[Any]]:
    """The class of the stream mechanism called ``name``."""
    kind: type[StreamMechanism[Any]] = _find(STREAMS, name, "mechanism")
    return kind


def _make(kind: type[Any], name: str, given: Mapping[str, Any]) -> Any:
    known = {parameter.name: parameter for parameter in parameters(kind)}
    inner: dict[str, dict[str, Any]] = {}
    chosen: dict[str, Any] = {}
    for key, value in given.items():
        first, dot, rest = key.partition(".")
        if first not in known:
            choices = "; ".join(str(parameter) for parameter in known.values()) or "none"
            near = get_close_matches(first, known, n=1)
            raise InvalidInputError(
                f"parameter '{first}' of '{name}': unknown; its parameters are: {choices}",
                name=first,
                next_step=f"did you mean '{near[0]}'?" if near else "choose one of its parameters",
            )
        if dot:
            inner.setdefault(first, {})[rest] = value
        else:
            chosen[first] = value
    return kind(**{key: _value(known[key], name, chosen.get(key), inner.get(key)) for key in {**chosen, **inner}})


def _value(parameter: Parameter, owner: str, value: Any, inner: Mapping[str, Any] | None) -> Any:
    if parameter.is_histogram:
        called = parameter.default if value is None else str(value)
        return _make(_find(HISTOGRAMS, called, "histogram"), called, inner or {})
    parts: dict[str, Any] = {
        kind.__name__: kind
        for kind in _alternatives(parameter.kind)
        if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__")
    }
    if parts and (inner is not None or value in parts):
        called = parameter.default.partition("(")[0] if value is None else str(value)
        return _make(_find(parts, called, parameter.name), called, inner or {})
    for kind in _alternatives(parameter.kind):
        converted = _as_kind(kind, value)
        if converted is not _NO:
            return converted
    raise InvalidInputError(
        f"parameter '{parameter.name}' of '{owner}': {value!r} is not {kind_name(parameter.kind)}",
        name=parameter.name,
        value=value,
        next_step=f"give {parameter.name} as {kind_name(parameter.kind)}",
    )


def _find(catalogue: Mapping[str, Any], name: str, what: str) -> Any:
    if name in catalogue:
        return catalogue[name]
    near = get_close_matches(name, catalogue, n=2, cutoff=0.5)
    hint = f", did you mean {' or '.join(repr(n) for n in near)}?" if near else "."
    raise InvalidInputError(name=what, value=name, limit=f"unknown{hint} The {what}s are {', '.join(catalogue)}")


_NO: Any = object()
"""What no conversion gives."""


def _as_kind(kind: Any, value: Any) -> Any:
    """The value as pydantic reads text of that type; lists are written as in JSON."""
    text = value.strip() if isinstance(value, str) else str(value)
    if kind is type(None):
        return None if text.lower() in ("none", "null", "") else _NO
    try:
        adapter = TypeAdapter[Any](kind)
        if typing.get_origin(kind) is tuple:
            return adapter.validate_json(text if isinstance(value, str) else json.dumps(value))
        return adapter.validate_python(text)
    except (ValidationError, ZeroDivisionError, PydanticSchemaGenerationError):
        return _NO


def _alternatives(kind: Any) -> Iterable[Any]:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        # Text last, because everything is text.
        return sorted(typing.get_args(kind), key=lambda k: k is str)
    return (kind,)


def kind_name(kind: Any) -> str:
    """A type as a person would say it.

    >>> kind_name(tuple[int, ...] | None)
    'list of int or none'
    """
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(kind_name(k) for k in typing.get_args(kind))
    if typing.get_origin(kind) is tuple:
        return f"list of {kind_name(typing.get_args(kind)[0])}"
    if kind is HistogramMechanism:
        return "histogram"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "one of " + ", ".join(str(member.value) for member in kind)
    plain = cast("Any", kind)
    return {type(None): "none", Fraction: "fraction"}.get(plain, getattr(plain, "__name__", str(plain)))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return "none" if field.default is None else str(field.default)
    if field.default_factory is not dataclasses.MISSING:
        made = field.default_factory()
        return next((name for name, kind in HISTOGRAMS.items() if type(made) is kind), repr(made))
    return "required"
