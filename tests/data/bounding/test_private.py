"""What bounding holds is exact and private: no repr, pickle, copy or report of a crash shows it."""

from __future__ import annotations

import copy
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.data.bounding.support import CALENDAR, DOMAIN, KEY, bounded, table
from veilstream.data import read_events
from veilstream.data.bounding import bound
from veilstream.data.bounding.choice import Rows
from veilstream.data.bounding.keyed import Key
from veilstream.data.bounding.people import identify
from veilstream.data.bounding.private import cleared_on_error
from veilstream.errors import InvalidInputError, SealedAccessError, UnknownValueError

PERSON = 424242


def holders() -> list[Any]:
    held = bounded(table([(PERSON, 0, 0)]))
    numbers = np.array([PERSON])
    return [held, held._runs, Key(KEY), identify(pl.Series([PERSON]), KEY), Rows(numbers, None, numbers)]


@pytest.mark.parametrize("index", range(5))
def test_private_values_neither_print_nor_pickle_nor_copy(index: int) -> None:
    value = holders()[index]
    assert str(PERSON) not in repr(value) + str(value)
    assert "sixteen" not in repr(value) + str(value)
    attempts: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy]
    attempts += [lambda one: one.__reduce_ex__(4), lambda one: one.__getstate__()]
    for attempt in attempts:
        with pytest.raises(SealedAccessError):
            attempt(value)
    with pytest.raises(TypeError):
        asdict(value)


def test_numbers_of_dropped_rows_do_not_print() -> None:
    with bounded(table([("", 0, 0)])) as held:
        assert repr(held.dropped) == "Dropped()"


def report(error: BaseException) -> str:
    """What a crash reporter that records local variables writes of the frames below the test's own."""
    told = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in told.stack if not frame.filename.endswith("test_private.py")]
    assert frames
    return "".join(str(frame.locals) for frame in frames)


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([(PERSON, 0, 0), (PERSON + 0.5, 0, 0)], InvalidInputError),
        ([(PERSON, 0, 0), ("x", 0, 99)], UnknownValueError),
        ([(PERSON, 0, 0), (2**200 + PERSON, 99, 0)], UnknownValueError),
    ],
)
def test_a_crash_report_of_refused_events_shows_no_row_and_no_key(rows: list[Any], kind: type[Exception]) -> None:
    events = read_events(table(rows), user="user", time="time", by=["bin"])
    with pytest.raises(kind) as caught:
        bound(events, DOMAIN, CALENDAR, key=KEY)
    shown = report(caught.value)
    assert str(PERSON) not in shown
    assert "sixteen" not in shown


def test_a_crash_while_counting_shows_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError

    held = bounded(table([(PERSON, 0, 0), (PERSON, 0, 1)]))
    monkeypatch.setattr("veilstream.data.bounding.bounded.seal", fail)
    with pytest.raises(MemoryError) as caught:
        list(held.snapshots())
    shown = report(caught.value)
    assert str(PERSON) not in shown
    assert "array" not in shown


def test_variables_of_earlier_errors_are_cleared_too() -> None:
    def first() -> None:
        secret = [PERSON]
        raise ValueError(len(secret))

    def second() -> None:
        try:
            first()
        except ValueError:
            raise KeyError("second") from None

    with pytest.raises(KeyError) as caught, cleared_on_error():
        second()
    context = caught.value.__context__
    assert context is not None
    frames = [frame for frame, _ in traceback.walk_tb(context.__traceback__)]
    assert any(frame.f_code.co_name == "first" and not frame.f_locals for frame in frames)
