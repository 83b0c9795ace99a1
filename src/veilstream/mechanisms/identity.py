"""By what a ledger knows a mechanism again: its registered name, its version, and the parameters that are not default.

Names come from the literals ``STREAMS`` and ``HISTOGRAMS``; other classes of this package are ``veilstream:Class``, and
classes from elsewhere ``module:Class``, so that a class which merely shares a name with ours is another one. What may
change without a new version is in ``docs/ledger.md``: a parameter may be added with a default that leaves what the
mechanism does as it was; a changed default, a removed parameter or another meaning is a new ``version: ClassVar[int]``,
and ``former_defaults`` says what a default was before. A stream whose state is one of ``former_states`` goes on with
it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any, Final, cast

import numpy as np

from veilstream.documents import read_json
from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms import HISTOGRAMS
from veilstream.mechanisms.streams import STREAMS

OURS: Final = "veilstream"


def describe(mechanism: object) -> str:
    """Canonical text of a mechanism and its parameters, by which a ledger knows it again.

    >>> from veilstream.mechanisms.streams import FixedRate
    >>> describe(FixedRate(interval=6))
    '{"name": "fixed-rate", "set": {"interval": 6}, "version": 1}'
    """
    return json.dumps(_plain(mechanism), sort_keys=True)


def recognises(recorded: str, mechanism: object) -> bool:
    """Whether ``recorded`` is a description of ``mechanism``, by this version or by schema 0001.

    The latter gave the bare name of a class and all its parameters; one that was added since must be at its default.

    >>> from veilstream.mechanisms.streams import Uniform
    >>> old = '{"class": "Uniform", "histogram": {"class": "Geometric"}, "horizon": null}'
    >>> recognises(old, Uniform()), recognises(old, Uniform(horizon=3)), recognises(describe(Uniform()), Uniform())
    (True, False, True)
    """
    if recorded == describe(mechanism):
        return True
    try:
        plain = read_json(recorded)
        now = _as_now(plain, {name_of(cls): cls for cls in _classes(mechanism)})
        return now == _plain(mechanism) or _same_as_first_schema(plain, mechanism)
    except ValueError:
        return False


def rebuilt(recorded: str) -> Any:
    """The mechanism of a description, by this version or by schema 0001; None if it is not ours or would be another.

    >>> from veilstream.mechanisms.streams import FixedRate
    >>> rebuilt(describe(FixedRate(interval=6)))
    FixedRate(interval=6, histogram=Geometric(), horizon=None)
    >>> rebuilt('{"name": "elsewhere:Uniform", "set": {}, "version": 1}') is None
    True
    """
    try:
        mechanism = _rebuilt(_as_now(read_json(recorded), {}))
    except (ValueError, KeyError, TypeError):
        return None
    return mechanism if recognises(recorded, mechanism) else None


def _classes(value: object) -> Iterator[type[Any]]:
    """The classes of a mechanism and of its parts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield value.__class__
        for f in dataclasses.fields(value):
            yield from _classes(getattr(value, f.name))


def _as_now(plain: Any, others: Mapping[str, type[Any]]) -> Any:
    """A description by an earlier version of its class as the present one gives it: with the defaults of its time.

    ``former_defaults`` of a class holds, for each earlier version that differed in nothing else, the defaults that have
    changed since: none where a stream goes on by what its state is. ``others`` are classes besides the registered ones.

    >>> _as_now({"name": "dsat", "set": {}, "version": 1}, {})
    {'name': 'dsat', 'version': 2, 'set': {'releases': None}}
    """
    if not isinstance(plain, dict):
        return plain
    parts = cast("dict[str, Any]", plain)
    if "set" not in parts:
        return parts
    cls: Any = {name: known for known, name in _registered().items()}.get(parts["name"], others.get(parts["name"]))
    former: Mapping[str, Any] | None = getattr(cls, "former_defaults", {}).get(parts["version"])
    chosen = {name: _as_now(value, others) for name, value in {**(former or {}), **parts["set"]}.items()}
    return {"name": parts["name"], "version": parts["version"] if former is None else cls.version, "set": chosen}


def _rebuilt(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(_rebuilt(item) for item in cast("list[Any]", plain))  # type: ignore[redundant-cast]
    if not isinstance(plain, dict):
        return plain
    parts = cast("dict[str, Any]", plain)  # pyright knows less here
    if "class" in parts:
        cls = {known.__name__: known for known in _registered()}[parts["class"]]
        return cls(**{name: _rebuilt(value) for name, value in parts.items() if name != "class"})
    cls = {name: known for known, name in _registered().items()}[parts["name"]]
    return cls(**{name: _rebuilt(value) for name, value in parts["set"].items()})


def name_of(cls: type[Any]) -> str:
    """The registered name of a class, or its own with its origin.

    >>> name_of(STREAMS["dsat"]), name_of(Fraction)
    ('dsat', 'fractions:Fraction')
    """
    registered = _registered().get(cls)
    return registered or f"{_origin(cls)}:{cls.__qualname__}"


def _origin(cls: type[Any]) -> str:
    package = cls.__module__.split(".")[0]
    # Modules of this package may move; their classes stay what they are.
    return OURS if package == OURS else cls.__module__


@cache
def _registered() -> dict[type[Any], str]:
    return {cls: name for catalogue in (STREAMS, HISTOGRAMS) for name, cls in catalogue.items()}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain_dataclass(value)
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Mapping):
        table = cast(Mapping[Any, Any], value)  # type: ignore[redundant-cast]  # pyright knows less here
        return {str(key): _plain(item) for key, item in table.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast(Sequence[Any], value)]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise InvalidInputError(
        f"parameter of type {type(value).__name__}: only numbers, texts, sequences and dataclasses can be recorded"
    )


def _plain_dataclass(value: Any) -> dict[str, Any]:
    cls: type[Any] = value.__class__
    given = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    defaults = defaults_of(cls)
    kept = {name: plain for name, plain in given.items() if name not in defaults or plain != defaults[name]}
    version = 1 if "version" in given else int(getattr(cls, "version", 1))
    return {"name": name_of(cls), "version": version, "set": kept}


def defaults_of(cls: type[Any]) -> dict[str, Any]:
    """The parameters of a class that have defaults, and these as a ledger would record them.

    >>> defaults_of(STREAMS["uniform"])
    {'histogram': {'name': 'geometric', 'version': 1, 'set': {}}, 'horizon': None}
    """
    found: dict[str, Any] = {}
    for f in dataclasses.fields(cls):
        if f.default is not dataclasses.MISSING:
            found[f.name] = _plain(f.default)
        elif f.default_factory is not dataclasses.MISSING:
            found[f.name] = _plain(f.default_factory())
    return found


def _same_as_first_schema(recorded: Any, value: Any) -> bool:
    if isinstance(recorded, dict) and "class" in recorded and dataclasses.is_dataclass(value):
        return _same_dataclass(cast("dict[str, Any]", recorded), value)
    if isinstance(recorded, list) and isinstance(value, list | tuple):
        items = cast("list[Any]", recorded)  # type: ignore[redundant-cast]  # pyright knows less here
        given = cast("Sequence[Any]", value)
        return len(items) == len(given) and all(map(_same_as_first_schema, items, given))
    return bool(recorded == _plain(value))


def _same_dataclass(recorded: dict[str, Any], value: Any) -> bool:
    cls: type[Any] = value.__class__
    registered = {known.__name__ for known in _registered()}
    if cls.__name__ != recorded["class"] or (cls.__name__ in registered and cls not in _registered()):
        return False
    stored = {name: part for name, part in recorded.items() if name != "class"}
    known = {f.name for f in dataclasses.fields(value)}
    defaults = defaults_of(cls)
    return (
        stored.keys() <= known
        and known - stored.keys() <= defaults.keys()
        and all(_same_as_first_schema(part, getattr(value, name)) for name, part in stored.items())
        and all(_plain(getattr(value, name)) == defaults[name] for name in known - stored.keys())
    )
