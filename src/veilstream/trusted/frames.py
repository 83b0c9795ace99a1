"""Errors that leave a function without its frames, so that no crash report shows exact data held in local variables.

A traceback keeps every frame between the handler and the error, and with it the frame's local variables: reporters that
record these would write exact counts to a log. A function that holds exact data is therefore wrapped by
``hide_frames``: what it raises begins its traceback at the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from types import FunctionType
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")


def hide_frames(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, whose errors carry neither its frames nor those below, nor what they were raised from.

    >>> import traceback
    >>> @hide_frames
    ... def divide(secret: int) -> float:
    ...     return secret / 0
    >>> try:
    ...     divide(10001 * 12345)
    ... except ZeroDivisionError as error:
    ...     report = traceback.TracebackException.from_exception(error, capture_locals=True)
    >>> "123462345" in "".join(report.format())
    False
    """
    refuse = _without_frames

    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            # This frame stays in the traceback, and its arguments may be exact.
            del args, kwargs
            raise refuse(error) from None

    # With the globals of the wrapped function, doctest sees that it belongs to that function's module.
    home = getattr(function, "__globals__", {})
    wrapper = FunctionType(guarded.__code__, home, guarded.__name__, None, guarded.__closure__)
    return cast("Callable[P, R]", update_wrapper(wrapper, function))


def _without_frames(error: BaseException) -> BaseException:
    error.__context__ = None
    return error.with_traceback(None)
