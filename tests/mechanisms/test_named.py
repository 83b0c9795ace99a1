"""Parameters given as text become what the mechanism's fields ask for, or a clear error."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

import pytest

from veilstream.errors import InvalidInputError
from veilstream.mechanisms.histograms import HISTOGRAMS, Geometric
from veilstream.mechanisms.named import build_mechanism, parameters
from veilstream.mechanisms.protocols import HistogramMechanism
from veilstream.mechanisms.streams import STREAMS


class Mode(StrEnum):
    SLOW = "slow"
    FAST = "fast"


@dataclass(frozen=True)
class Steady:
    gain: float = 1.0


@dataclass(frozen=True)
class Tracking:
    gain: float = 2.0


@dataclass(frozen=True)
class Everything:
    count: int = 1
    share: Fraction | None = None
    name: str | int = "x"
    flag: bool = False
    mode: Mode = Mode.SLOW
    axes: tuple[tuple[int, ...], ...] | None = None
    controller: Steady | Tracking = field(default_factory=Steady)
    histogram: HistogramMechanism = field(default_factory=Geometric)


@pytest.fixture(autouse=True)
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STREAMS, "everything", Everything)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("count", "7", 7),
        ("share", "1/3", Fraction(1, 3)),
        ("share", "0.25", Fraction(1, 4)),
        ("share", "none", None),
        ("name", "7", 7),
        ("name", "seven", "seven"),
        ("flag", "true", True),
        ("mode", "fast", Mode.FAST),
        ("axes", "[[0, 1], [2]]", ((0, 1), (2,))),
        ("controller", "Tracking", Tracking()),
    ],
)
def test_text_becomes_the_fields_type(name: str, text: str, value: object) -> None:
    made: Any = build_mechanism("everything", None, {name: text})
    assert getattr(made, name) == value
    assert type(getattr(made, name)) is type(value)


def test_parts_take_parameters_of_their_own() -> None:
    made: Any = build_mechanism("everything", None, {"controller": "Tracking", "controller.gain": "3"})
    assert made.controller == Tracking(3.0)
    default: Any = build_mechanism("everything", None, {"controller.gain": "5"})
    assert default.controller == Steady(5.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"count": "7.5"}, "'7.5' is not int"),
        ({"count": True}, "True is not int"),
        ({"share": "1/0"}, "fraction or none"),
        ({"mode": "quick"}, "one of slow, fast"),
        ({"axes": "[0"}, "list of list of int or none"),
        ({"axes": "[[0.5]]"}, "list of list of int"),
        ({"controller.gane": "1"}, "'gane' of 'Steady': unknown; its parameters are: gain"),
        ({"histogram.depth": "1"}, "'depth' of 'geometric': unknown"),
        ({"counts": "1"}, "count (int, default 1)"),
    ],
)
def test_clear_errors(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        build_mechanism("everything", None, settings)
    assert words in str(caught.value)


@pytest.mark.parametrize("histogram", sorted(HISTOGRAMS))
def test_every_histogram_plugs_into_every_stream_that_takes_one(histogram: str) -> None:
    taking = [name for name, kind in STREAMS.items() if any(parameter.is_histogram for parameter in parameters(kind))]
    assert len(taking) > len(STREAMS) / 2
    for name in taking:
        made: Any = build_mechanism(name, histogram)
        assert type(made.histogram) is HISTOGRAMS[histogram]
