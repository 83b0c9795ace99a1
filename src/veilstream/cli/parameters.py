"""Mechanisms by name, with parameters given as text."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from fractions import Fraction
from typing import Any, cast

from veilstream.errors import InvalidInput
from veilstream.histograms import HISTOGRAMS
from veilstream.mechanism import HistogramMechanism, StreamMechanism
from veilstream.streams import STREAMS

NESTED = "histogram"


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
    """The stream mechanism called ``name``; ``histogram.x`` among the settings goes to its histogram.

    >>> build_mechanism("fixed-rate", "geometric", {"interval": "6"})
    FixedRate(interval=6, histogram=Geometric(), horizon=None)
    >>> build_mechanism("unifrom")
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInput: mechanism 'unifrom': unknown, did you mean 'uniform'? The mechanisms are uniform,
    ...; nothing was released
    """
    stream = _find(STREAMS, name, "mechanism")
    given = dict(settings or {})
    inner = {key.partition(".")[2]: given.pop(key) for key in list(given) if key.startswith(f"{NESTED}.")}
    takes_histogram = any(p.is_histogram and p.name == NESTED for p in parameters(stream))
    chosen = _checked(stream, name, given)
    if histogram is not None or inner:
        if not takes_histogram:
            raise InvalidInput(f"histogram {histogram!r}: mechanism '{name}' takes none; nothing was released")
        inner_name = histogram or "geometric"
        kind = _find(HISTOGRAMS, inner_name, "histogram")
        chosen[NESTED] = kind(**_checked(kind, inner_name, inner))
    made: StreamMechanism[Any] = stream(**chosen)
    return made


def _find(catalogue: Mapping[str, type[Any]], name: str, what: str) -> type[Any]:
    if name in catalogue:
        return catalogue[name]
    near = get_close_matches(name, catalogue, n=2, cutoff=0.5)
    hint = f", did you mean {' or '.join(repr(n) for n in near)}?" if near else "."
    raise InvalidInput(f"{what} {name!r}: unknown{hint} The {what}s are {', '.join(catalogue)}; nothing was released")


def _checked(mechanism: type[Any], name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    known = {p.name: p for p in parameters(mechanism) if not p.is_histogram}
    for key in given:
        if key not in known:
            choices = "; ".join(str(p) for p in known.values()) or "none"
            raise InvalidInput(
                f"parameter '{key}' of '{name}': unknown; its parameters are: {choices}; nothing was released"
            )
    return {key: _convert(known[key], name, value) for key, value in given.items()}


def _convert(parameter: Parameter, owner: str, value: Any) -> Any:
    for kind in _alternatives(parameter.kind):
        converted = _as_kind(kind, value)
        if converted is not _NO:
            return converted
    raise InvalidInput(
        f"parameter '{parameter.name}' of '{owner}': {value!r} is not {kind_name(parameter.kind)}; nothing was released"
    )


_NO: Any = object()


def _as_kind(kind: Any, value: Any) -> Any:
    text = str(value).strip()
    if kind is type(None):
        return None if text.lower() in ("none", "null", "") else _NO
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), _NO)
    if isinstance(value, bool):
        return _NO
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next((member for member in kind if str(member.value) == text), _NO)
    if kind in (int, float, Fraction):
        try:
            return kind(text)
        except (ValueError, ZeroDivisionError):
            return _NO
    return text if kind is str else _NO


def _alternatives(kind: Any) -> Iterable[Any]:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        # None last among the readable kinds would still be found; text last, because everything is text.
        return sorted(typing.get_args(kind), key=lambda k: k is str)
    return (kind,)


def kind_name(kind: Any) -> str:
    """A type as a person would say it."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return " or ".join(kind_name(k) for k in typing.get_args(kind))
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
