"""Arguments of the wrong type, refused where they are given, by the annotations that are there anyway.

Only types are looked at; what a value must be like stands with the code that uses it. No value is quoted, for it may
be a private table.
"""

from __future__ import annotations

import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from functools import wraps
from numbers import Integral, Rational, Real
from typing import Any, Final, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin

from veilstream.errors import InvalidInputError, VeilstreamError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
WIDER: Final[dict[Any, tuple[type, ...]]] = {int: (Integral,), float: (Real,), complex: (Real, complex)}
"""Kinds of numbers that stand for others, as those of NumPy do."""
SMALLEST: Final = Fraction(1, 10**100)
LARGEST: Final = 10**100
IN_RANGE: Final = "0, or of a size from 1e-100 to 1e100, is needed"
LARGEST_WHOLE: Final = 10**15
"""A stream with a step a microsecond lasts thirty years until then."""


def checks_arguments(
    function: Callable[P, R], owners: Sequence[type[Any]] = (), *, limited: bool = False
) -> Callable[P, R]:
    """Refuse arguments whose types the annotations of ``function`` do not allow.

    Numbers of other libraries arrive as those of Python. ``limited`` also refuses numbers that nobody means: floating
    point loses them in the first product.

    >>> @checks_arguments
    ... def wait(steps: int, why: str | None = None) -> int:
    ...     return steps
    >>> wait(3)
    3
    >>> wait("3")
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: steps of wait: int is needed, not str; nothing was released
    """
    owner = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    signature = inspect.signature(function)
    hints: dict[str, Any] = {}

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if not hints:
            hints.update(_hints(function, owners))
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if signature.parameters[name].kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
                hint = hints.get(name, Any)
                _check(owner, name, value, hint)
                plain = _plain(value, hint)
                if limited:
                    _refuse_extremes(owner, name, plain)
                bound.arguments[name] = plain
        return function(*bound.args, **bound.kwargs)

    return checked


def check_arguments_of(kinds: Iterable[type[Any]], *, limited: bool = False) -> None:
    """Refuse arguments of the wrong type in the constructors of these classes."""
    for kind in kinds:
        kind.__init__ = checks_arguments(kind.__init__, kind.__mro__, limited=limited)


def with_checked_arguments(kind: type[T]) -> type[T]:
    """The same as a decorator of one class."""
    check_arguments_of([kind])
    return kind


def is_a(value: object, *kinds: type) -> bool:
    """``isinstance`` for values that come from outside, whose annotations a checker takes for granted.

    >>> is_a("3", int, float)
    False
    """
    return isinstance(value, kinds)


def _hints(function: Callable[..., Any], owners: Sequence[type[Any]]) -> dict[str, Any]:
    """The annotations as types, in the modules of the classes that they come from; others allow anything."""
    names = dict(vars(typing))
    for module in (*(owner.__module__ for owner in reversed(owners)), inspect.unwrap(function).__module__):
        names.update(vars(sys.modules[module]))
    found: dict[str, Any] = {"": Any}
    for name, annotation in function.__annotations__.items():
        try:
            found[name] = eval(annotation, names) if isinstance(annotation, str) else annotation
        except (NameError, TypeError, AttributeError):
            found[name] = Any
    return found


def _check(owner: str, name: str, value: object, hint: Any) -> None:
    if name not in ("self", "cls") and not allows(hint, value):
        needed = _in_words(hint)
        raise InvalidInputError(name=name, of=owner, limit=f"{needed} is needed, not {type(value).__name__}")


def _plain(value: Any, hint: Any) -> Any:
    """A number as Python has it: of NumPy's kinds, and fractions where a float is asked for."""
    given: object = value
    if isinstance(given, tuple | list) and get_origin(hint) in (tuple, list):
        parts = get_args(hint)
        alike = len(parts) == 1 or parts[1:] == (...,)
        held = [_plain(one, parts[0] if alike else Any) for one in cast("Sequence[Any]", given)]
        return tuple(held) if isinstance(given, tuple) else held
    if type(value) in (int, float, bool) or not isinstance(value, Real):
        return value
    if isinstance(value, Integral):
        return int(value)
    if not isinstance(value, Rational) or asks_for_float(hint):
        return _nearest(value)
    return value


def asks_for_float(hint: Any) -> bool:
    """Whether an annotation asks for floating point, and not for exact numbers as well.

    >>> asks_for_float(float | None), asks_for_float(float | Fraction), asks_for_float(Any)
    (True, False, False)
    """
    hint = plain_hint(hint)
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return float in parts and Fraction not in parts


def _nearest(value: Real) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def is_extreme(value: Fraction | float) -> bool:
    """Whether a number is so large, or so near to 0, that its square is lost in floating point.

    >>> is_extreme(0), is_extreme(1e-320), is_extreme(Fraction(1, 3)), is_extreme(10**400)
    (False, True, False, True)
    """
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return value != 0 and not (SMALLEST <= value <= LARGEST or SMALLEST <= -value <= LARGEST)


def _refuse_extremes(owner: str, name: str, value: object) -> None:
    if isinstance(value, tuple | list):
        for one in cast("Sequence[object]", value):
            _refuse_extremes(owner, name, one)
    elif isinstance(value, Fraction | float) and is_extreme(value):
        raise InvalidInputError(name=name, of=owner, value=value, limit=IN_RANGE)
    elif isinstance(value, Integral) and abs(int(value)) > LARGEST_WHOLE:
        raise InvalidInputError(name=name, of=owner, value=value, limit=f"at most {LARGEST_WHOLE:,} is allowed")


def plain_hint(hint: Any) -> Any:
    """An annotation with aliases of the ``type`` statement spelled out, such as ``NDArray`` from NumPy 2.5 on.

    >>> plain_hint(int), plain_hint(tuple[int, ...])
    (<class 'int'>, tuple[int, ...])
    """
    alias = get_origin(hint) or hint
    if not hasattr(alias, "__value__"):
        return hint
    meaning: Any = alias.__value__
    return plain_hint(meaning if alias is hint else meaning[get_args(hint)])


def allows(hint: Any, value: Any) -> bool:
    """Whether an annotation allows a value; one that is not understood allows everything.

    >>> allows(int | None, None), allows(tuple[int, ...], [1, "2"]), allows(float, True), allows(Any, object())
    (True, False, False, True)
    """
    hint = plain_hint(hint)
    origin = get_origin(hint)
    if hint is Any:
        return True
    if hint is None or hint is type(None):
        return value is None
    if origin in (Union, types.UnionType):
        return any(allows(part, value) for part in get_args(hint))
    if origin is Literal:
        return any(type(value) is type(known) and value == known for known in get_args(hint))
    if origin is not None:
        return _allows_parts(origin, get_args(hint), value)
    if not isinstance(hint, type):
        return True
    return _is_one(hint, value)


def _allows_parts(origin: Any, parts: tuple[Any, ...], value: Any) -> bool:
    """Containers by their own type, and tuples and lists by what they hold."""
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        held = cast("Sequence[Any]", value)
        if len(parts) == 2 and parts[1] is ...:
            return all(allows(parts[0], one) for one in held)
        return len(held) == len(parts) and all(map(allows, parts, held))
    if origin is type:
        return isinstance(value, type)
    if origin in (list, dict, Mapping, Sequence, Iterable, Collection):
        return isinstance(value, origin) and (origin is not Sequence or not isinstance(value, bytes | bytearray))
    return not isinstance(origin, type) or origin.__module__.partition(".")[0] != "veilstream" or _is_one(origin, value)


def _is_one(kind: type[Any], value: Any) -> bool:
    if kind is object:
        return True
    if getattr(kind, "_is_protocol", False):
        # A class has the methods of its instances and is none.
        if not getattr(kind, "_is_runtime_protocol", False):
            return True
        methods = [name for name, part in vars(kind).items() if not name.startswith("_") and callable(part)]
        return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods)
    if issubclass(kind, Enum):
        return isinstance(value, kind | str)
    if isinstance(value, bool):
        return kind is bool
    if kind in WIDER:
        return isinstance(value, WIDER[kind])
    return isinstance(value, Rational if issubclass(kind, Rational) else kind)


def _in_words(hint: Any) -> str:
    parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return " or ".join(dict.fromkeys(_word(part) for part in parts))


def _word(hint: Any) -> str:
    if hint is type(None) or hint is None:
        return "None"
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    return str(getattr(get_origin(hint) or hint, "__name__", hint))


FOREIGN: Final = (TypeError, ValueError, ArithmeticError, AttributeError, LookupError, OSError, RecursionError)
"""What libraries raise about values that they cannot read."""


def refuses(name: str, limit: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Turn what libraries raise about values of a user into an ``InvalidInputError`` that quotes none of them.

    >>> @refuses("share", "a number is needed")
    ... def half(text: str) -> float:
    ...     return float(text) / 2
    >>> half("x")
    Traceback (most recent call last):
    ...
    veilstream.errors.InvalidInputError: share: a number is needed; nothing was released
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except VeilstreamError:
                raise
            except BaseException as error:
                if not is_about_values(error):
                    raise
            raise InvalidInputError(name=name, limit=limit)

        return guarded

    return decorate


def is_about_values(error: BaseException) -> bool:
    """Whether a library complains about what it was given: also Polars, whose panics are no ``Exception``."""
    kind = type(error)
    return isinstance(error, FOREIGN) or kind.__name__ == "PanicException" or kind.__module__.startswith("polars.")
