"""No sealed class, of whatever kind, gives away what it holds by any ordinary way of reading an object."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import operator
import pickle  # noqa: TID251 (to show that it is refused)
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from veilstream.errors import SealedAccessError
from veilstream.privacy.buffers import Buffers
from veilstream.privacy.charge import Span
from veilstream.privacy.kernels import Kernel
from veilstream.trusted.block_noise import NoiseBlock
from veilstream.trusted.correlated import CorrelatedNoise
from veilstream.trusted.counts import Sealed, UndatedCounts, seal
from veilstream.trusted.opening import opened
from veilstream.trusted.points import SIDE, Metric, SealedFlow, SealedPlaces, SealedPoints
from veilstream.trusted.records import SealedRecords, seal_records
from veilstream.trusted.rows import SealedRows, SealedTable
from veilstream.trusted.running import SealedRunning
from veilstream.trusted.sealed import Opaque
from veilstream.trusted.statistics.base import JointScores, Scores
from veilstream.trusted.statistics.clusters import Boundaries, Stretches, boundaries, stretches
from veilstream.trusted.statistics.dyadic import DyadicCosts, deviation_costs
from veilstream.trusted.statistics.empirical_risk import SealedExamples
from veilstream.trusted.statistics.metric import SmoothValue
from veilstream.trusted.threshold import SealedThreshold

SECRET = 918_273_645
NOW = Span(0, 0)
EXACT = np.array([SECRET, 3])
POINTS = SealedPoints(np.array([[SECRET], [3]]), (SIDE,), Fraction(5), Metric.EUCLIDEAN, NOW)
ROWS = SealedRows([np.array([1, 0])], np.array([SECRET, SECRET + 1], dtype=np.uint64), (2,), NOW, 1)
SAMPLES: dict[type[Opaque[Any]], Opaque[Any]] = {
    Sealed: seal(EXACT, 0),
    UndatedCounts: UndatedCounts(EXACT, 1, (2,)),
    SealedRecords: seal_records(np.array([[SECRET]]), (1 << 40,), 0),
    SealedRows: ROWS,
    SealedTable: SealedTable(ROWS, (), 0),
    SealedPoints: POINTS,
    SealedPlaces: SealedPlaces(EXACT, NOW, Fraction(1), replaced=Fraction(2)),
    SealedFlow: SealedFlow(EXACT, (2,), NOW, flow=Fraction(1), mass=1),
    Scores: Scores(EXACT, NOW, Fraction(1)),
    JointScores: JointScores(EXACT, NOW, Fraction(1), np.array([2])),
    Stretches: stretches(seal(EXACT, 0)),
    SealedRunning: SealedRunning.opened_with(seal(EXACT, 0), Kernel()),
    CorrelatedNoise: CorrelatedNoise(EXACT, Buffers((1,), (1,), (1,)), 0, 0, 2, Fraction(1), Fraction(1), 30, 0),
    DyadicCosts: deviation_costs(seal(EXACT, 0)),
    Boundaries: boundaries(seal(EXACT, 0), np.array([0, 1, 2]), 2),
    SealedExamples: SealedExamples(np.array([[SECRET / 1e9]]), np.array([1]), np.array([0])),
    SmoothValue: SmoothValue(SECRET, Fraction(SECRET), NOW, Fraction(1), 0, 1 << 40),
    NoiseBlock: NoiseBlock(EXACT[None], 1, 0, Fraction(1), Fraction(1), "look"),
    SealedThreshold: SealedThreshold(EXACT, 1, 0, Fraction(1), Fraction(1), Fraction(1), "decide"),
}


def descendants(cls: type[Any]) -> Iterator[type[Any]]:
    for child in cls.__subclasses__():
        yield child
        yield from descendants(child)


def test_every_sealed_class_is_covered_here() -> None:
    ours = {cls for cls in descendants(Opaque) if cls.__module__.startswith("veilstream.")}
    assert ours == set(SAMPLES)


@dataclasses.dataclass
class Holder:
    """A mechanism's state as an author may write it."""

    sealed: Any


READS: dict[str, Callable[[Any], object]] = {
    "array": np.asarray,
    "ufunc": lambda x: np.add(x, 1),
    "list": list,
    "reversed": lambda x: list(reversed(x)),
    "contains": lambda x: SECRET in x,
    "len": len,
    "index": lambda x: x[0],
    "bool": bool,
    "float": float,
    "int": int,
    "complex": complex,
    "round": round,
    "trunc": math.trunc,
    "floor": math.floor,
    "operator.index": operator.index,
    "less": lambda x: x < 3,
    "at least": lambda x: x >= 3,
    "sum": sum,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "asdict of a holder": lambda x: dataclasses.asdict(Holder(x)),
    "astuple of a holder": lambda x: dataclasses.astuple(Holder(x)),
    "pickle": pickle.dumps,
    "pickle, first protocol": lambda x: pickle.dumps(x, protocol=0),
    "reduce": lambda x: x.__reduce__(),
    "reduce_ex": lambda x: x.__reduce_ex__(4),
    "getstate": lambda x: x.__getstate__(),
    "object.__reduce_ex__": lambda x: object.__reduce_ex__(x, 2),
}


@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", READS)
def test_ordinary_reading_is_refused(kind: type[Opaque[Any]], name: str) -> None:
    with pytest.raises(SealedAccessError):
        READS[name](SAMPLES[kind])


@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.__name__)
def test_what_can_be_seen_is_public(kind: type[Opaque[Any]]) -> None:
    """Attributes, slots, printing and the default state hold no payload; there is no ``__dict__`` to look into."""
    sealed = SAMPLES[kind]
    assert opened(sealed) is not None
    assert not hasattr(sealed, "__dict__")
    assert not hasattr(sealed, "_payload")
    with pytest.raises(TypeError):
        vars(sealed)
    with pytest.raises(TypeError):
        dataclasses.asdict(sealed)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        json.dumps(sealed)
    seen = [getattr(sealed, name) for name in dir(sealed) if not name.startswith("__")]
    shown = " ".join([f"{sealed!r} {sealed} {sealed:}", *map(repr, seen), repr(object.__getstate__(sealed))])
    assert str(SECRET) not in shown
    assert str(SECRET / 1e9) not in shown
    assert f"{SECRET:x}" not in shown


def test_a_sealed_class_cannot_forget_its_slots() -> None:
    with pytest.raises(TypeError, match="__slots__"):
        type("Forgetful", (Opaque,), {})
