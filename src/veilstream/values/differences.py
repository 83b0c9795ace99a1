"""How two recorded settings differ, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from veilstream.documents import read_json

NAMES: Final = {"w": "window", "per": "block"}
"""What a reader calls a field of a record."""
DERIVED: Final = frozenset({"pure_share", "version"})
"""Fields that follow from others, told only where nothing else differs."""


def differing(known: object, given: object) -> tuple[str, str]:
    """What is on record and what was given, each without what both agree on.

    >>> differing('{"epsilon": "2", "w": 3, "delta": "0"}', '{"epsilon": "1", "w": null, "delta": "0"}')
    ('epsilon 2 and window 3', "epsilon 1 and window 'user'")
    >>> differing('{"name": "model", "set": {"periods": [24]}}', '{"name": "uniform", "set": {}}')
    ("'model'", "'uniform'")
    >>> differing(1, 2)
    ('1', '2')
    """
    one, other = _fields(known), _fields(given)
    if one is None or other is None:
        return repr(known), repr(given)
    if one.get("name") != other.get("name"):
        return repr(one.get("name")), repr(other.get("name"))
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    told = [name for name in names if name not in DERIVED] or names
    return _words(told, one), _words(told, other)


def _fields(text: object) -> dict[str, Any] | None:
    """The fields of a JSON object, those of the settings of a mechanism beside the others."""
    if not isinstance(text, str):
        return None
    try:
        read: object = read_json(text)
    except ValueError:
        return None
    if not isinstance(read, Mapping):
        return None
    whole = dict(cast("Mapping[str, Any]", read))
    settings: object = whole.pop("set", None)
    return {**whole, **cast("Mapping[str, Any]", settings)} if isinstance(settings, Mapping) else whole


def _words(names: list[str], fields: Mapping[str, Any]) -> str:
    parts = [f"{NAMES.get(name, name)} {_shown(name, fields.get(name))}" for name in names]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 2 else parts) or "nothing"


def _shown(name: str, value: object) -> str:
    # Without a window all that a person ever does is protected together.
    return str(value) if value is not None else "'user'" if name == "w" else "none"
